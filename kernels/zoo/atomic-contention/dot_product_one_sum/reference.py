"""Reference of dot_product_one_sum."""

import torch


def dot(x: torch.Tensor, y: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Return start plus the dot product, fp64 (1)."""
    return start.double() + (x.double() * y.double()).sum()
