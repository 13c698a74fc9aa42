"""Reference of scale_pairs_4_bytes."""

import torch


def scale_pairs(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Return x times the factor, computed in fp32 or wider, in x's type."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * factor).to(x.dtype)
