"""Reference of linear_silu_one_stage."""

import torch


def linear_silu(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return silu(a @ b + bias) with sums in at least float32."""
    wide = torch.promote_types(a.dtype, torch.float32)
    total = a.to(wide) @ b.to(wide) + bias.to(wide)
    return (total * torch.sigmoid(total)).to(a.dtype)
