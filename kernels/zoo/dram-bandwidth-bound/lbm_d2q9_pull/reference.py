"""Reference of lbm_d2q9_pull."""

import torch

DIRECTIONS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)


def lattice_step(f: torch.Tensor, tau: float) -> torch.Tensor:
    """Return the populations (9, h, w) after one step of streaming and BGK collision."""
    moved = [torch.roll(f[i], (y, x), (0, 1)) for i, (x, y) in enumerate(DIRECTIONS)]
    rho = sum(moved)
    u = sum(x * m for (x, _), m in zip(DIRECTIONS, moved, strict=True)) / rho
    v = sum(y * m for (_, y), m in zip(DIRECTIONS, moved, strict=True)) / rho
    base = 1 - 1.5 * (u * u + v * v)
    new = []
    for (x, y), weight, m in zip(DIRECTIONS, WEIGHTS, moved, strict=True):
        along = x * u + y * v
        equilibrium = weight * rho * (base + 3 * along + 4.5 * along * along)
        new.append(m - (m - equilibrium) / tau)
    return torch.stack(new)
