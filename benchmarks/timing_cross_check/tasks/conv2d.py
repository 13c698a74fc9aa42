"""Convolution of 3 x 3 over 32 images of 64 channels, fp32."""

import torch
from torch import nn

IMAGES, CHANNELS, SIZE = 32, 64, 112


class Model(nn.Module):
    """Convolution of 3 x 3 over 32 images of 64 channels, fp32."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the convolution."""
        return self.conv(x)


def get_inputs() -> list[torch.Tensor]:
    """Return the inputs of one call."""
    return [torch.randn(IMAGES, CHANNELS, SIZE, SIZE)]


def get_init_inputs() -> list[int]:
    """Return the arguments of the constructor."""
    return []
