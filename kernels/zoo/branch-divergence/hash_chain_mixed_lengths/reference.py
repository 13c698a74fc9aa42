"""Reference of hash_chain_mixed_lengths."""

import torch


def walk_chains(seeds: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Return the low 31 bits of each chain's end, after as many 32-bit hashes as its length."""
    state = seeds.to(torch.int64)
    for step in range(512):
        mixed = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        state = torch.where(lengths > step, mixed ^ (mixed >> 15), state)
    return (state & 0x7FFFFFFF).to(torch.int32)
