"""Reference of bias_gelu_backward."""

import math

import torch


def bias_gelu_backward(gradient: torch.Tensor, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return gradient * GELU'(x + bias) with GELU in its tanh form."""
    wide = torch.float32 if x.dtype == torch.bfloat16 else x.dtype
    z = x.to(wide) + bias.to(wide)
    k = math.sqrt(2 / math.pi)
    t = torch.tanh(k * (z + 0.044715 * z * z * z))
    slope = 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * k * (1 + 3 * 0.044715 * z * z)
    return (gradient.to(wide) * slope).to(x.dtype)
