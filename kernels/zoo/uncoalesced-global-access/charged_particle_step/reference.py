"""Reference of charged_particle_step."""

import torch


def step_charged(particles: torch.Tensor) -> torch.Tensor:
    """Return the particles after one step of 0.01, (n, 7): position, velocity, charge."""
    position, velocity, charge = particles[:, :3], particles[:, 3:6], particles[:, 6]
    vx, vy, vz = velocity.unbind(dim=1)
    acceleration = torch.stack(
        (
            charge * (0.3 + 0.5 * vy) - 0.05 * vx,
            charge * (-0.2 - 0.5 * vx) - 0.05 * vy,
            charge * 0.1 - 0.05 * vz,
        ),
        dim=1,
    )
    velocity = velocity + 0.01 * acceleration
    return torch.cat((position + 0.01 * velocity, velocity, charge[:, None]), dim=1)
