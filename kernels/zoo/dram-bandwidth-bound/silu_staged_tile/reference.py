"""Reference of silu_staged_tile."""

import torch


def silu(x: torch.Tensor) -> torch.Tensor:
    """Return x over 1 + exp(-x)."""
    return x / (1 + torch.exp(-x))
