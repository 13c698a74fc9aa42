"""Reference of gemm_8x8_a_thread."""

import torch


def transposed_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the transpose of a (k, m) times b (k, n)."""
    return a.T @ b
