"""Reference of prefix_max_rows."""

import torch


def scan_rows(x: torch.Tensor) -> torch.Tensor:
    """Return the largest value up to each column of its row (rows, columns)."""
    return torch.cummax(x, dim=1).values
