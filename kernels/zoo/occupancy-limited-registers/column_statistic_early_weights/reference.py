"""Reference of column_statistic_early_weights."""

import torch


def column_score(x: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
    """Return sum over k of raw_k^2 t^k, with t = m / (1 + |m|) of the column mean m (cols)."""
    mean = x.mean(0)
    t = mean / (1 + mean.abs())
    score = torch.zeros_like(t)
    for k in range(95, -1, -1):
        score = score * t + raw[k].square()
    return score
