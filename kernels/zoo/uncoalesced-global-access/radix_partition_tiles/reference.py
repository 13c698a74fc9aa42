"""Reference of radix_partition_tiles."""

import torch


def partition_tiles(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row ordered stably by its low 6 bits, and the first place of each value."""
    digits = (keys & 63).long()
    order = digits.sort(dim=1, stable=True).indices
    ones = torch.ones_like(keys)
    counts = torch.zeros(keys.shape[0], 64, dtype=keys.dtype, device=keys.device)
    counts.scatter_add_(1, digits, ones)
    starts = counts.cumsum(1, dtype=keys.dtype) - counts
    return keys.gather(1, order), starts
