"""Reference of rope_neighbouring_pairs."""

import torch


def apply_rope(
    qk: torch.Tensor, positions: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
) -> torch.Tensor:
    """Return the pairs (2 i, 2 i + 1) of each head, turned by the token's cosines and sines."""
    wide = cosines.dtype
    cosine = cosines[positions.long()][:, None, :]
    sine = sines[positions.long()][:, None, :]
    real, imaginary = qk[..., 0::2].to(wide), qk[..., 1::2].to(wide)
    turned = (real * cosine - imaginary * sine, imaginary * cosine + real * sine)
    return torch.stack(turned, dim=-1).flatten(2).to(qk.dtype)
