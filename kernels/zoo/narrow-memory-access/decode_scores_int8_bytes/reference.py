"""Reference of decode_scores_int8_bytes."""

import torch


def decode_scores(query: torch.Tensor, keys: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return the products of keys and query of each head, times the scales (heads, context)."""
    wide = scales.dtype
    return torch.einsum("hd,htd->ht", query.to(wide), keys.to(wide)) * scales
