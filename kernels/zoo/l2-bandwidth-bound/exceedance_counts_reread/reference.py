"""Reference of exceedance_counts_reread."""

import torch


def count_above(x: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """Return the number of values above each level in each chunk, int32 (levels, chunks)."""
    return torch.stack([(x > level).sum(dim=1, dtype=torch.int32) for level in levels])
