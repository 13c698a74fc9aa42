"""Reference of rope_block_per_head."""

import torch


def rotary(
    q: torch.Tensor,
    k: torch.Tensor,
    positions: torch.Tensor,
    cosines: torch.Tensor,
    sines: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return q and k with the pairs (i, i + 64) of each head rotated, in the dtype of q."""
    c = cosines[positions.long()][:, None, :]
    s = sines[positions.long()][:, None, :]

    def rotate(x: torch.Tensor) -> torch.Tensor:
        low, high = x.to(c.dtype).chunk(2, dim=-1)
        return torch.cat((low * c - high * s, high * c + low * s), dim=-1).to(x.dtype)

    return rotate(q), rotate(k)
