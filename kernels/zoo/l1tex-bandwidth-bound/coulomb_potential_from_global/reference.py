"""Reference of coulomb_potential_from_global."""

import torch


def coulomb(
    x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, charge: torch.Tensor
) -> torch.Tensor:
    """Return the sum of charge over softened distance, for each point."""
    potential = torch.empty_like(x)
    for start in range(0, len(x), 1024):
        part = slice(start, start + 1024)
        square = (x[part, None] - x).square_()
        square += (y[part, None] - y).square_()
        square += (z[part, None] - z).square_()
        potential[part] = (square + 0.01).rsqrt_().mul_(charge).sum(1)
    return potential
