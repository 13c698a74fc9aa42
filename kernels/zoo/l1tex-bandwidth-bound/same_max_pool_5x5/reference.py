"""Reference of same_max_pool_5x5."""

import torch
import torch.nn.functional as F


def same_max_pool(image: torch.Tensor) -> torch.Tensor:
    """Return the maximum of the 5x5 window around each pixel, (planes, height, width)."""
    return F.max_pool2d(image[None], kernel_size=5, stride=1, padding=2)[0]
