"""Reference of batched_product_64x64."""

import torch


def batched_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the matrix product of each pair of 64 x 64 matrices."""
    return torch.bmm(a, b)
