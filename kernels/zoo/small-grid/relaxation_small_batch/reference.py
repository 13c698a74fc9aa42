"""Reference of relaxation_small_batch."""

import torch


def relax(start: torch.Tensor, drive: torch.Tensor) -> torch.Tensor:
    """Return v after 6144 Euler steps of v' = drive - v - v^3 - w and w' = v - 2 w."""
    v, w = start, torch.zeros_like(start)
    for _ in range(6144):
        slope = drive - v - v * v * v - w
        w = w + (v - 2 * w) * 2**-12
        v = v + slope * 2**-12
    return v
