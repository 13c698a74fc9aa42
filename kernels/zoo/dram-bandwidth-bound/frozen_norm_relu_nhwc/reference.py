"""Reference of frozen_norm_relu_nhwc."""

import torch


def norm_relu(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """Return max(0, x * scale + shift) for each channel."""
    return torch.relu(x * scale + shift)
