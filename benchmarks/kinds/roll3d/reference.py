"""Reference for roll3d."""

import torch


def roll3d(x: torch.Tensor, down: int, along: int, across: int) -> torch.Tensor:
    """x, (depth, rows, cols), rolled by a step along each axis."""
    return torch.roll(x, shifts=(down, along, across), dims=(0, 1, 2))
