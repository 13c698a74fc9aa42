"""Reference of polynomial_map_trajectories."""

import torch


def trace(factors: torch.Tensor, gains: torch.Tensor, drive: torch.Tensor) -> torch.Tensor:
    """Return x at 256 times, with four steps x = P(x) + gain * drive[t] before each: (n, 256)."""
    x = torch.zeros_like(gains)
    states = []
    for t in range(256):
        for _ in range(4):
            value = torch.zeros_like(x)
            for k in reversed(range(32)):
                value = value * x + factors[k]
            x = value + gains * drive[t]
        states.append(x)
    return torch.stack(states, 1)
