"""Reference of gemm_operands_from_global."""

import torch


def matrix_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the matrix product of a (m, k) and b (k, n)."""
    return a @ b
