"""Reference of edit_distance_short_reads."""

import torch


def edit_distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the Levenshtein distance of column i of a and of b (m, n), int32 (n)."""
    length, count = a.shape
    steps = torch.arange(length + 1, dtype=torch.int32, device=a.device)[:, None]
    row = steps.expand(length + 1, count).clone()
    for i in range(length):
        best = torch.minimum(row[1:] + 1, row[:-1] + (b != a[i]).to(torch.int32))
        first = torch.full_like(row[:1], i + 1)
        # cell j is the smallest of best[k] + j - k over all k up to j
        row = torch.cummin(torch.cat([first, best]) - steps, dim=0).values + steps
    return row[length]
