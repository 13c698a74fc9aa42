"""Reference of integer_mixer_full_unroll."""

import torch


def mix(x: torch.Tensor) -> torch.Tensor:
    """Return the lower 31 bits of x after 4096 rounds of xor, shift and multiplication."""
    state = x.to(torch.int64)
    for r in range(4096):
        state = (state ^ (state >> 15)) * (0x2C1B3C6D + 2 * r) & 0xFFFFFFFF
    return (state >> 1).to(torch.int32)
