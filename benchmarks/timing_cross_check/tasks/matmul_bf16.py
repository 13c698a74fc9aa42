"""Product of two bf16 matrices of 4096 x 4096."""

import torch
from torch import nn

SIZE = 4096


class Model(nn.Module):
    """Product of two bf16 matrices of 4096 x 4096."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return a @ b."""
        return a @ b


def get_inputs() -> list[torch.Tensor]:
    """Return the inputs of one call."""
    return [
        torch.randn(SIZE, SIZE, dtype=torch.bfloat16),
        torch.randn(SIZE, SIZE, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[int]:
    """Return the arguments of the constructor."""
    return []
