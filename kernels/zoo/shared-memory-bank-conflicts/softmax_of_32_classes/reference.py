"""Reference of softmax_of_32_classes."""

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of each row, (n, 32)."""
    return torch.softmax(x, dim=1)
