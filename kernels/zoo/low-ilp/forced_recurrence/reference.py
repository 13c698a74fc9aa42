"""Reference of forced_recurrence."""

import torch

_CHUNK = 64


def run_recurrence(
    factors: torch.Tensor, start: torch.Tensor, series: torch.Tensor
) -> torch.Tensor:
    """Return y after y = factor * y + series[t] for all t, from y = start: (n)."""
    exponents = torch.arange(_CHUNK - 1, -1, -1, device=factors.device)
    powers = factors[:, None] ** exponents
    whole = factors**_CHUNK
    last = start
    for chunk in series.split(_CHUNK):
        last = whole * last + (powers * chunk).sum(1)
    return last
