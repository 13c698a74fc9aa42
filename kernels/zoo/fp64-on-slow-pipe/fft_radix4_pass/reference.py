"""Reference of fft_radix4_pass."""

import torch


def transform_pass(x: torch.Tensor) -> torch.Tensor:
    """Return row k of the 4-point transforms over dimension 0, times exp(-2 pi i j k / 4 n)."""
    n = x.shape[1]
    a, b, c, d = torch.view_as_complex(x).unbind(0)
    rows = (
        (a + c) + (b + d),
        (a - c) - 1j * (b - d),
        (a + c) - (b + d),
        (a - c) + 1j * (b - d),
    )
    j = torch.arange(n, dtype=x.dtype, device=x.device)
    k = torch.arange(4, dtype=x.dtype, device=x.device)
    angles = -torch.pi / (2 * n) * j * k[:, None]
    twiddles = torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(torch.stack(rows) * twiddles)
