"""Reference of embedding_thread_per_row."""

import torch


def look_up(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Return the table's row of each id, (n, dim)."""
    return table[ids.long()]
