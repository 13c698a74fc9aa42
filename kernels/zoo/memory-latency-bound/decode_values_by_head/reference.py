"""Reference of decode_values_by_head."""

import torch


def decode_values(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return the sum of each head's value rows (heads, length, 128), weighted by its scores."""
    return torch.einsum("hs,hsd->hd", weights, values.to(weights.dtype))
