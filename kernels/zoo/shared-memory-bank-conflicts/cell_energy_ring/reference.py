"""Reference of cell_energy_ring."""

import torch


def body_energy(bodies: torch.Tensor) -> torch.Tensor:
    """Return kinetic energy plus the energy of the charge in its cell's field, (cells, 256).

    A record holds x, vx, y, vy, z, vz, charge and mass.
    """
    return torch.cat([_body_energy(chunk) for chunk in bodies.split(64)])


def _body_energy(bodies: torch.Tensor) -> torch.Tensor:
    position, velocity = bodies[..., 0:6:2], bodies[..., 1:6:2]
    charge, mass = bodies[..., 6], bodies[..., 7]
    offset = position[:, :, None] - position[:, None, :]
    inverse = torch.rsqrt((offset * offset).sum(-1) + 0.25)
    others = 1 - torch.eye(bodies.shape[1], dtype=bodies.dtype, device=bodies.device)
    field = (charge[:, None, :] * inverse * others).sum(-1)
    return 0.5 * mass * (velocity * velocity).sum(-1) + charge * field
