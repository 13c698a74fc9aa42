"""Reference of histogram_private_counts."""

import torch


def histogram(keys: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Return start plus the number of occurrences of each key, int32 (2048)."""
    return start + torch.bincount(keys, minlength=2048).to(start.dtype)
