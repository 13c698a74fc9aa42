"""Reference of visit_counts_checked."""

import torch


def count_visits(cells: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Return start plus the number of occurrences of each cell, int32 (4194304)."""
    return start + torch.bincount(cells, minlength=start.numel()).to(start.dtype)
