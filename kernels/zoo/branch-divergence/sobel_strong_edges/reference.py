"""Reference of sobel_strong_edges."""

import torch


def find_strong_edges(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return angle and strength of gradients above 800, else zeros (images, height, width)."""
    padded = torch.nn.functional.pad(images.to(torch.float64)[:, None], (1, 1, 1, 1), "replicate")
    p = padded[:, 0]
    a, b, c = p[:, :-2, :-2], p[:, :-2, 1:-1], p[:, :-2, 2:]
    d, f = p[:, 1:-1, :-2], p[:, 1:-1, 2:]
    g, h, i = p[:, 2:, :-2], p[:, 2:, 1:-1], p[:, 2:, 2:]
    gx = c - a + 2 * (f - d) + i - g
    gy = g - a + 2 * (h - b) + i - c
    strong = gx.abs() + gy.abs() > 800
    angle = torch.where(strong, torch.atan2(gy, gx), 0.0)
    strength = torch.where(strong, (gx * gx + gy * gy) ** 0.225, 0.0)
    return angle.to(torch.float32), strength.to(torch.float32)
