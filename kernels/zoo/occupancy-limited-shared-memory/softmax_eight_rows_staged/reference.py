"""Reference of softmax_eight_rows_staged."""

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of each row (rows, 3072)."""
    return torch.softmax(x, dim=1)
