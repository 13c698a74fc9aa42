"""Reference of spmm_one_neighbour_at_a_time."""

import torch


def make_matrix(rows: int, bounds: int, entries: int, columns: int) -> list[torch.Tensor]:
    """Return a sparse matrix with entries at random places, and a dense one."""
    owners = torch.randint(0, rows, (entries,)).sort().values
    offsets = torch.searchsorted(owners, torch.arange(bounds)).int()
    indices = torch.randint(0, columns, (entries,), dtype=torch.int32)
    return [offsets, indices, torch.rand(entries), torch.randn(columns, 32)]


def multiply(
    offsets: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, dense: torch.Tensor
) -> torch.Tensor:
    """Return the product of the CSR matrix and the dense one (rows, 32)."""
    rows = offsets.shape[0] - 1
    lengths = (offsets[1:] - offsets[:-1]).long()
    owners = torch.arange(rows, device=offsets.device).repeat_interleave(lengths)
    zeros = torch.zeros(rows, dense.shape[1], dtype=dense.dtype, device=dense.device)
    return zeros.index_add(0, owners, dense[indices.long()] * values[:, None])
