"""Reference of split_window_heads."""

import torch


def split_heads(x: torch.Tensor) -> torch.Tensor:
    """Return x with tokens and heads exchanged."""
    return x.transpose(1, 2).contiguous()
