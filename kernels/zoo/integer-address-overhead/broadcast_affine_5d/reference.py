"""Reference of broadcast_affine_5d."""

import torch


def broadcast_affine(
    x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, depth: torch.Tensor
) -> torch.Tensor:
    """Return x * scale[c, w] + shift[b, h] + depth[d], in the dtype of x: (b, c, d, h, w)."""
    wide = x.to(scale.dtype)
    wide = wide * scale[None, :, None, None, :] + (
        shift[:, None, None, :, None] + depth[None, None, :, None, None]
    )
    return wide.to(x.dtype)
