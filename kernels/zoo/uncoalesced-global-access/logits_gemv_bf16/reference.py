"""Reference of logits_gemv_bf16."""

import torch


def logits(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return weight (rows, cols) times x (cols), accumulated in float32, in the inputs' dtype."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return (weight.to(dtype) @ x.to(dtype)).to(x.dtype)
