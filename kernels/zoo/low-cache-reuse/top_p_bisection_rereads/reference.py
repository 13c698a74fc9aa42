"""Reference of top_p_bisection_rereads."""

import torch


def top_p_threshold(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Return the least kept weight, exp(logit - largest), rounded down to 24 binary places."""
    weights = torch.exp(logits - logits.amax(1, keepdim=True)).sort(1, descending=True).values
    masses = weights.cumsum(1)
    is_short = masses < top_p * masses[:, -1:]
    last = is_short.sum(1, keepdim=True).clamp(max=logits.shape[1] - 1)
    return torch.floor(weights.gather(1, last)[:, 0] * 2.0**24) / 2.0**24
