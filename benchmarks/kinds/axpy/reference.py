"""Reference for axpy."""

import torch


def axpy(
    a: float, x: torch.Tensor, y: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """The sum of a * x and y; x, y: (n,)."""
    return torch.add(y, x, alpha=a, out=out)
