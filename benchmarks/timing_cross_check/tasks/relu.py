"""Rectified linear unit of 64 Mi fp32 elements."""

import torch
from torch import nn

ELEMENTS = 64 * 2**20


class Model(nn.Module):
    """Rectified linear unit of 64 Mi fp32 elements."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return max(x, 0)."""
        return torch.relu(x)


def get_inputs() -> list[torch.Tensor]:
    """Return the inputs of one call."""
    return [torch.randn(ELEMENTS)]


def get_init_inputs() -> list[int]:
    """Return the arguments of the constructor."""
    return []
