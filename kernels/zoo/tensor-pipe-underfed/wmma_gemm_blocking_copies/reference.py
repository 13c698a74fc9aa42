"""Reference of wmma_gemm_blocking_copies."""

import torch


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b in at least float32: (m, n)."""
    wide = torch.promote_types(a.dtype, torch.float32)
    return a.to(wide) @ b.to(wide)
