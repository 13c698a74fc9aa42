"""Reference of projection_residual_four_warps."""

import torch


def project(a: torch.Tensor, b: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """Return a @ b + residual with sums in at least float32."""
    wide = torch.promote_types(a.dtype, torch.float32)
    return (a.to(wide) @ b.to(wide) + residual.to(wide)).to(a.dtype)
