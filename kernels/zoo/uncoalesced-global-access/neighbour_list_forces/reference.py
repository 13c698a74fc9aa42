"""Reference of neighbour_list_forces."""

import torch


def pair_forces(atoms: torch.Tensor, neighbours: torch.Tensor) -> torch.Tensor:
    """Return the force on each atom: (n, 3).

    A row of atoms is x, y, z and a strength. An entry of the list is 512 plus the distance to the
    neighbour in places; places outside are those at the ends.
    """
    n = len(atoms)
    forces = []
    for first in range(0, n, 8192):
        own, offsets = atoms[first : first + 8192], neighbours[first : first + 8192].long()
        places = torch.arange(first, first + len(own), device=atoms.device)[:, None]
        others = atoms[(places + offsets - 512).clamp(0, n - 1)]
        steps = own[:, None, :3] - others[..., :3]
        squared = steps.square().sum(2) + 1
        inverse = 1 / squared
        sixth = inverse**3
        inside = (1 - squared / 16).clamp(min=0)
        strength = own[:, None, 3] * others[..., 3]
        scale = strength * (2 * sixth - 1) * sixth * inverse * inside.square()
        forces.append((scale[..., None] * steps).sum(1))
    return torch.cat(forces)
