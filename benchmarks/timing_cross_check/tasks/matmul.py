"""Product of two fp32 matrices of 2048 x 2048."""

import torch
from torch import nn

SIZE = 2048


class Model(nn.Module):
    """Product of two fp32 matrices of 2048 x 2048."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return a @ b."""
        return a @ b


def get_inputs() -> list[torch.Tensor]:
    """Return the inputs of one call."""
    return [torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)]


def get_init_inputs() -> list[int]:
    """Return the arguments of the constructor."""
    return []
