"""Reference of swiglu_interleaved."""

import torch
import torch.nn.functional as F


def swiglu_interleaved(pairs: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up of the pairs along the last axis, (tokens, width)."""
    wide = pairs.to(torch.promote_types(pairs.dtype, torch.float32))
    return (F.silu(wide[..., 0]) * wide[..., 1]).to(pairs.dtype)
