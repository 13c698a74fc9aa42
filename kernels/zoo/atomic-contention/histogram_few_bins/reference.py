"""Reference of histogram_few_bins."""

import torch


def histogram(keys: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Return start plus the number of occurrences of each key, int32 (16)."""
    return start + torch.bincount(keys, minlength=16).to(start.dtype)
