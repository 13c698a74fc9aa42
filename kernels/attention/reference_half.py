"""Reference for attention of half-precision arrays: what the variants are judged by."""

import torch


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: int,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Scaled dot-product attention, forward; causal 0: no mask, else a query sees no later key.

    q, k, v: (bh, seq, dim), float16, bfloat16 or float64, contiguous; bh is batch times heads.
    Returns o of the same shape and dtype, in ``out`` where one is given. Every step is explicit,
    and all scores exist at once: bh * seq * seq of them.
    """
    scores = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
    if causal:
        size = q.shape[1]
        later = torch.ones(size, size, dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return torch.bmm(torch.softmax(scores, dim=-1), v, out=out)
