"""Reference of partition_aggregates."""

import torch

GROUPS = 4096
LEAST, LARGEST = -(2**31), 2**31 - 1


def aggregate(
    groups: torch.Tensor, amounts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return count, sum, least and largest amount of each group, (partitions, 4096) each.

    A group without rows has the largest int32 as its least amount, and the least as its largest.
    """
    own = groups.long()
    shape = (groups.shape[0], GROUPS)
    nothing = torch.zeros(shape, dtype=torch.int32, device=groups.device)
    counts = nothing.scatter_add(1, own, torch.ones_like(amounts))
    sums = nothing.scatter_add(1, own, amounts)
    lows = torch.full_like(nothing, LARGEST).scatter_reduce(1, own, amounts, "amin")
    highs = torch.full_like(nothing, LEAST).scatter_reduce(1, own, amounts, "amax")
    return counts, sums, lows, highs
