"""Reference of kv_cache_fill."""

import torch


def kv_cache_fill(projected: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values, each (batch, 8, length, 128)."""
    keys, values = projected.unbind(dim=2)
    return keys.transpose(1, 2).contiguous(), values.transpose(1, 2).contiguous()
