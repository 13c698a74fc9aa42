"""Reference of attention_keys_transpose."""

import torch


def turn_keys(keys: torch.Tensor) -> torch.Tensor:
    """Return the keys with seq innermost, (heads, dim, seq)."""
    return keys.transpose(1, 2).contiguous()
