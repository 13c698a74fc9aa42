"""Reference of pairwise_cosine_rows."""

import torch


def compare_rows(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the cosine of the angle between each row of a and each row of b (n, m)."""
    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    a, b = a.to(wide), b.to(wide)
    norms = (a * a).sum(1)[:, None] * (b * b).sum(1)
    return (a @ b.T) / norms.sqrt()
