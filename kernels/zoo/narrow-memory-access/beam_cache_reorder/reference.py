"""Reference of beam_cache_reorder."""

import torch


def reorder_cache(cache: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
    """Return cache with row b of every layer taken from row parents[b]."""
    return cache.index_select(1, parents.long())
