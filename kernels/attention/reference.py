"""Reference for attention: the definition that the variants are judged by."""

import torch


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Scaled dot-product attention, forward, without a mask.

    q, k, v: (bh, seq, dim), float32 or float64, contiguous; bh is batch times heads. Returns o of
    the same shape and dtype, in ``out`` where one is given. Every step is explicit, and all
    scores exist at once: bh * seq * seq of them. In float64 it is the oracle for the float32
    variants.
    """
    scores = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
    return torch.bmm(torch.softmax(scores, dim=-1), v, out=out)
