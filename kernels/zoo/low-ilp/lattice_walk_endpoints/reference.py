"""Reference of lattice_walk_endpoints."""

import torch

_STEPS = 512
_MASK = 0xFFFFFFFF


def walk_lattice(seeds: torch.Tensor) -> torch.Tensor:
    """Return the squared distance from the start after 512 diagonal steps, int32 (n)."""
    state = (2 * seeds.to(torch.int64) + 1) & _MASK
    x = torch.zeros_like(state)
    y = torch.zeros_like(state)
    for _ in range(_STEPS):
        state = state ^ ((state << 13) & _MASK)
        state = state ^ (state >> 17)
        state = state ^ ((state << 5) & _MASK)
        x += state >> 31
        y += (state >> 12) & 1
    return ((2 * x - _STEPS) ** 2 + (2 * y - _STEPS) ** 2).to(torch.int32)
