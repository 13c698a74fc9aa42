"""Reference for transpose."""

import torch


def transpose(x: torch.Tensor) -> torch.Tensor:
    """The transpose of x, (rows, cols), contiguous."""
    return x.t().contiguous()
