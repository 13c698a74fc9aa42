"""Reference of frame_companding_block_704."""

import torch


def compand(pixels: torch.Tensor) -> torch.Tensor:
    """Return sqrt(255 * pixels) (n)."""
    return torch.sqrt(255 * pixels)
