"""Reference of fp16_gemm_short_tiles."""

import torch


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b.T with sums in at least float32, in bfloat16 or wider: (m, n)."""
    wide = torch.promote_types(a.dtype, torch.float32) if a.element_size() > 1 else torch.float32
    total = a.to(wide) @ b.to(wide).T
    return total if a.dtype == torch.float64 else total.to(torch.bfloat16)
