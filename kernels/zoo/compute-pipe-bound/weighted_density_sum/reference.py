"""Reference of weighted_density_sum."""

import torch

_CHUNK = 65536
_WINDOW = (0.42, 0.31, -0.27, 0.18, 0.13, -0.11, 0.09, 0.07, -0.06, 0.05, -0.04, 0.03, 0.02)


def sum_density(targets: torch.Tensor, sources: torch.Tensor) -> torch.Tensor:
    """Return the sum over sources of window(t) * (1 - (x - t)^2)^3 at each target x: (n)."""
    window = torch.zeros_like(sources)
    for coefficient in reversed(_WINDOW):
        window = window * sources + coefficient
    parts = []
    for chunk in targets.split(_CHUNK):
        near = 1 - (chunk[:, None] - sources).square()
        parts.append((near * near * near * window).sum(1))
    return torch.cat(parts)
