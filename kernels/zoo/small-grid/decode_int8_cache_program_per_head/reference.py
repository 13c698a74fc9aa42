"""Reference of decode_int8_cache_program_per_head."""

import torch


def decode_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    key_scales: torch.Tensor,
    values: torch.Tensor,
    value_scales: torch.Tensor,
) -> torch.Tensor:
    """Return softmax(query keys / sqrt(128)) values of each head, in at least fp32."""
    wide = key_scales.dtype
    scores = torch.einsum("hd,htd->ht", query.to(wide), keys.to(wide)) * key_scales
    shares = torch.softmax(scores * 128**-0.5, dim=1) * value_scales
    return torch.einsum("ht,htd->hd", shares, values.to(wide)).to(query.dtype)
