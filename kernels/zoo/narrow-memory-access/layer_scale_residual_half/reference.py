"""Reference of layer_scale_residual_half."""

import torch


def add_scaled(
    x: torch.Tensor, residual: torch.Tensor, bias: torch.Tensor, gamma: torch.Tensor
) -> torch.Tensor:
    """Return residual + gamma * (x + bias), computed in at least fp32."""
    wide = torch.promote_types(x.dtype, torch.float32)
    sum_ = x.to(wide) + bias.to(wide)
    return (residual.to(wide) + gamma.to(wide) * sum_).to(x.dtype)
