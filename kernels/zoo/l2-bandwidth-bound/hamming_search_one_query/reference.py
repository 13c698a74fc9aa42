"""Reference of hamming_search_one_query."""

import torch


def count_bits(words: torch.Tensor) -> torch.Tensor:
    """Return the number of set bits of each int32, which must not be negative."""
    words = words - ((words >> 1) & 0x55555555)
    words = (words & 0x33333333) + ((words >> 2) & 0x33333333)
    words = (words + (words >> 4)) & 0x0F0F0F0F
    words = words + (words >> 8)
    return (words + (words >> 16)) & 0x3F


def hamming_search(codes: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
    """Return distance * 2048 + index of the nearest code of each chunk, int32 (q, chunks)."""
    index = torch.arange(codes.shape[2], dtype=torch.int32, device=codes.device)
    best = [
        (count_bits(codes ^ query[:, None, None]).sum(0, dtype=torch.int32) * 2048 + index).amin(1)
        for query in queries
    ]
    return torch.stack(best)
