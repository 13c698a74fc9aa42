"""Reference of fourier_series_sum."""

import torch


def sum_series(angles: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Return the sum over k = 1 to 64 of cosines[k - 1] cos(k x) + sines[k - 1] sin(k x): (n)."""
    values = torch.zeros_like(angles)
    for k in range(64):
        phase = (k + 1) * angles
        values += cosines[k] * torch.cos(phase) + sines[k] * torch.sin(phase)
    return values
