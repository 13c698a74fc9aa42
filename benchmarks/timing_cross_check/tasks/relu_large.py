"""ReLU of 6.4 GB of fp32 elements."""

import torch
from torch import nn

ROWS, COLUMNS = 4096, 393_216


class Model(nn.Module):
    """ReLU of 6.4 GB of fp32 elements."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return relu(x)."""
        return torch.relu(x)


def get_inputs() -> list[torch.Tensor]:
    """Return the inputs of one call."""
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[int]:
    """Return the arguments of the constructor."""
    return []
