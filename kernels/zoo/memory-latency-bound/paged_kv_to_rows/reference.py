"""Reference of paged_kv_to_rows."""

import torch


def gather_kv(cache: torch.Tensor, page_table: torch.Tensor) -> torch.Tensor:
    """Return the pages of each sequence one after another."""
    return cache[page_table.long()]
