"""Reference of window_partition."""

import torch


def partition(image: torch.Tensor) -> torch.Tensor:
    """Return the windows of 7 x 7 pixels: (batch, 8, 8, 7, 7, 96)."""
    blocks = image.view(image.shape[0], 8, 7, 8, 7, 96)
    return blocks.permute(0, 1, 3, 2, 4, 5).contiguous()
