"""Reference of cross_bilateral_weights."""

import torch

_RADIUS = 4


def denoise(image: torch.Tensor, depth: torch.Tensor, albedo: torch.Tensor) -> torch.Tensor:
    """Return means of 9 x 9 windows weighted by likeness of three guides; zeros outside."""
    rows, cols = image.shape
    guides = ((image, 2.9), (depth, 3.6), (albedo, 2.4))
    padded = [torch.nn.functional.pad(g, (_RADIUS,) * 4) for g, _ in guides]
    total, weights = torch.zeros_like(image), torch.zeros_like(image)
    for dy in range(2 * _RADIUS + 1):
        for dx in range(2 * _RADIUS + 1):
            exponent = torch.zeros_like(image)
            for (guide, strength), tile in zip(guides, padded, strict=True):
                difference = tile[dy : dy + rows, dx : dx + cols] - guide
                exponent -= (strength * difference).square()
            weight = torch.exp2(exponent)
            total += weight * padded[0][dy : dy + rows, dx : dx + cols]
            weights += weight
    return total / weights
