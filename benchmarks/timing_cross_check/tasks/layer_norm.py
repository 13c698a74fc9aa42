"""Layer normalization of rows of 4096 fp32 elements."""

import torch
from torch import nn

ROWS, COLUMNS = 8192, 4096


class Model(nn.Module):
    """Layer normalization of rows of 4096 fp32 elements."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(COLUMNS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return normalized rows."""
        return self.norm(x)


def get_inputs() -> list[torch.Tensor]:
    """Return the inputs of one call."""
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[int]:
    """Return the arguments of the constructor."""
    return []
