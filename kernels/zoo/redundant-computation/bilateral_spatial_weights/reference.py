"""Reference of bilateral_spatial_weights."""

import torch


def smooth_image(image: torch.Tensor, space: float, span: float, radius: int) -> torch.Tensor:
    """Return the bilateral filter of a radius of an image (height, width)."""
    wide = image.to(torch.float64 if image.dtype == torch.float64 else torch.float32)
    padded = torch.nn.functional.pad(wide[None, None], (radius,) * 4, "replicate")[0, 0]
    height, width = image.shape
    total, weights = torch.zeros_like(wide), torch.zeros_like(wide)
    for dy in range(2 * radius + 1):
        for dx in range(2 * radius + 1):
            value = padded[dy : dy + height, dx : dx + width]
            distance = (dx - radius) ** 2 + (dy - radius) ** 2
            weight = torch.exp(-distance * space - (value - wide) ** 2 * span)
            total += weight * value
            weights += weight
    return (total / weights).to(image.dtype)
