"""Reference of gradient_shards_sum."""

import torch


def add_shards(shards: torch.Tensor) -> torch.Tensor:
    """Return the sum of the shards, rounded once."""
    wide = torch.float64 if shards.dtype == torch.float64 else torch.float32
    total = shards[0].to(wide)
    for shard in shards[1:]:
        total = total + shard.to(wide)
    return total.to(shards.dtype)
