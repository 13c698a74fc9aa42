"""Reference of hamming_neighbours_by_query."""

import torch

RADIUS = 112


def count_bits(words: torch.Tensor) -> torch.Tensor:
    """Return the number of set bits of each int64, which must not be negative."""
    words = words - ((words >> 1) & 0x5555555555555555)
    words = (words & 0x3333333333333333) + ((words >> 2) & 0x3333333333333333)
    words = (words + (words >> 4)) & 0x0F0F0F0F0F0F0F0F
    words = words + (words >> 8)
    words = words + (words >> 16)
    return (words + (words >> 32)) & 0x7F


def count_near(codes: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
    """Return how many codes of each chunk differ in at most 112 bits, int32 (q, chunks)."""
    near = [
        (count_bits(codes ^ query[:, None, None]).sum(0) <= RADIUS).sum(1, dtype=torch.int32)
        for query in queries
    ]
    return torch.stack(near)
