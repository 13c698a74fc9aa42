"""Reference of jpeg_block_transform."""

import math

import torch


def transform_image(pixels: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return the scaled cosine transforms of blocks of 8 by 8 pixels: (rows, columns, 64)."""
    at = torch.arange(8, dtype=torch.float64, device=pixels.device)
    waves = 0.5 * torch.cos((2 * at + 1) * at[:, None] * math.pi / 16)
    waves[0] *= math.sqrt(0.5)
    waves = waves.to(scales.dtype)
    blocks = pixels.permute(0, 2, 1, 3).to(scales.dtype) - 128
    return (waves @ blocks @ waves.T).flatten(2) * scales
