"""Reference of gemm_tiles_through_registers."""

import torch


def gemm_tn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a.T @ b (m, n)."""
    return a.T @ b
