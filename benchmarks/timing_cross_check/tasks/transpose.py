"""Transpose of an fp32 matrix of 8192 x 4096."""

import torch
from torch import nn

ROWS, COLUMNS = 8192, 4096


class Model(nn.Module):
    """Transpose of an fp32 matrix of 8192 x 4096."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the transpose, contiguous."""
        return x.t().contiguous()


def get_inputs() -> list[torch.Tensor]:
    """Return the inputs of one call."""
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[int]:
    """Return the arguments of the constructor."""
    return []
