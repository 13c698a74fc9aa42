"""Reference for scan32."""

import torch


def scan32(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Running sums over the last axis; x: (rows, 32)."""
    return torch.cumsum(x, dim=1, out=out)
