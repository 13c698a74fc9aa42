"""Reference of attention_score_matrix."""

import torch


def compute_scores(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Return queries @ keys^T / 8 for each head, in at least float32: (heads, seq, seq)."""
    wide = torch.promote_types(queries.dtype, torch.float32)
    return torch.bmm(queries.to(wide), keys.to(wide).transpose(1, 2)) * 0.125
