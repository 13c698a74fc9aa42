"""Reference of column_sums_small_blocks."""

import torch


def column_sums(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of each column."""
    return x.sum(dim=0)
