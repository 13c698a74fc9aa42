"""Reference of gemm_eight_stages."""

import torch


def gemm_tn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a.T @ b (m, n)."""
    return a.T @ b
