"""Reference of mish_in_double."""

import torch


def mish(x: torch.Tensor) -> torch.Tensor:
    """Return x times the hyperbolic tangent of log(1 + exp(x))."""
    return x * torch.tanh(torch.log1p(torch.exp(x)))
