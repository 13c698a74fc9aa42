"""Reference of csr_normalize_thread_rows."""

import torch


def normalize(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Return the values, stored row after row, divided by the sum of their row.

    Row r > 0 starts at entry 64 r + offsets[r]; ``values`` has 64 entries for each row on average.
    """
    rows = offsets.numel()
    starts = 64 * torch.arange(rows + 1, device=values.device)
    starts[1:rows] += offsets[1:].long()
    row_of = torch.repeat_interleave(torch.arange(rows, device=values.device), starts.diff())
    flat = values.reshape(-1)
    sums = flat.new_zeros(rows).index_add_(0, row_of, flat)
    inverse = torch.where(sums > 0, 1.0 / sums, torch.zeros_like(sums))
    return (flat * inverse[row_of]).reshape(values.shape)
