"""Reference for scale."""

import torch


def twice(x, out=None):
    """2 x; x: (n,), float32 or float64."""
    return torch.mul(x, 2, out=out)
