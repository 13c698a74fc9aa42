"""Reference of alibi_slope_pow."""

import torch


def add_alibi(scores: torch.Tensor) -> torch.Tensor:
    """Return scores / sqrt(128) - 2^(-8 (head + 1) / heads) * |query - key|, last ones aligned."""
    wide = torch.promote_types(scores.dtype, torch.float32)
    heads, queries, keys = scores.shape
    steps = torch.arange(1, heads + 1, device=scores.device, dtype=wide)
    slopes = torch.exp2(-8 * steps / heads)[:, None, None]
    query = torch.arange(queries, device=scores.device)[:, None] + keys - queries
    distances = (query - torch.arange(keys, device=scores.device)).abs()
    return (scores.to(wide) * 128**-0.5 - slopes * distances).to(scores.dtype)
