"""Reference of bilateral_7x7_wide_tile."""

import math

import torch

RADIUS = 3
NEARNESS = math.log2(math.e) / (2 * 2.0**2)
LIKENESS = math.log2(math.e) / (2 * 0.2**2)


def smooth_image(image: torch.Tensor) -> torch.Tensor:
    """Return the bilateral filter of an image whose border values continue outside (h, w)."""
    h, w = image.shape
    rows, columns = (torch.arange(size, device=image.device) for size in (h, w))
    total, norm = torch.zeros_like(image), torch.zeros_like(image)
    for dy in range(-RADIUS, RADIUS + 1):
        row = image[(rows + dy).clamp(0, h - 1)]
        for dx in range(-RADIUS, RADIUS + 1):
            tap = row[:, (columns + dx).clamp(0, w - 1)]
            difference = tap - image
            fall = difference * difference * LIKENESS + (dx * dx + dy * dy) * NEARNESS
            weight = torch.exp2(-fall)
            total += weight * tap
            norm += weight
    return total / norm
