"""Tanh of 4.3 GB of bf16 elements."""

import torch
from torch import nn

ROWS, COLUMNS = 4096, 524_288


class Model(nn.Module):
    """Tanh of 4.3 GB of bf16 elements."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return tanh(x)."""
        return torch.tanh(x)


def get_inputs() -> list[torch.Tensor]:
    """Return the inputs of one call."""
    return [torch.randn(ROWS, COLUMNS).bfloat16()]


def get_init_inputs() -> list[int]:
    """Return the arguments of the constructor."""
    return []
