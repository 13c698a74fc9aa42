"""Reference of conv1d_eight_channels_a_thread."""

import torch


def conv1d(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the 1-D convolution of x (batch, 48, width) with nine taps and zero padding."""
    windows = torch.nn.functional.pad(x, (4, 4)).unfold(2, 9, 1)
    return torch.einsum("ncwt,oct->now", windows, weights)
