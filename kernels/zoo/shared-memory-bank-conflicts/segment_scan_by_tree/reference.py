"""Reference of segment_scan_by_tree."""

import torch


def scan(x: torch.Tensor) -> torch.Tensor:
    """Return the running sums along each row, (n, 512)."""
    return torch.cumsum(x, dim=1)
