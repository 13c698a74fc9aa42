"""Reference of half_gemm_wmma_tiles_64x128."""

import torch


def half_gemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b, accumulated and returned in float32 (float64 for float64 inputs)."""
    dtype = torch.promote_types(a.dtype, torch.float32)
    return a.to(dtype) @ b.to(dtype)
