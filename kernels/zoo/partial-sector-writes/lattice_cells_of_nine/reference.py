"""Reference of lattice_cells_of_nine."""

import torch

LINKS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
RATE = 1.2


def lattice_step(cells: torch.Tensor) -> torch.Tensor:
    """Return the cells after a step: each takes what flows to it, then relaxes to its balance."""
    moved = [cells[..., q].roll((y, x), (0, 1)) for q, (x, y) in enumerate(LINKS)]
    density = sum(moved)
    inverse = 1 / density.clamp(min=1e-6)
    speed_x = sum(x * part for (x, _), part in zip(LINKS, moved, strict=True)) * inverse
    speed_y = sum(y * part for (_, y), part in zip(LINKS, moved, strict=True)) * inverse
    energy = 1.5 * (speed_x.square() + speed_y.square())
    after = []
    for (x, y), weight, part in zip(LINKS, WEIGHTS, moved, strict=True):
        along = 3 * (x * speed_x + y * speed_y)
        balance = weight * density * (1 + along + 0.5 * along.square() - energy)
        after.append(part + RATE * (balance - part))
    return torch.stack(after, dim=-1)
