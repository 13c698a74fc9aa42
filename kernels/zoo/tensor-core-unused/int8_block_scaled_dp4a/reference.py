"""Reference of int8_block_scaled_dp4a."""

import torch


def multiply(
    a: torch.Tensor, b: torch.Tensor, scales_a: torch.Tensor, scales_b: torch.Tensor
) -> torch.Tensor:
    """Return the product of a and b transposed, each block of 128 values times its scale."""
    dtype = scales_a.dtype
    left = (a.to(dtype) * scales_a[..., None]).flatten(1)
    right = (b.to(dtype) * scales_b[..., None]).flatten(1)
    return left @ right.T
