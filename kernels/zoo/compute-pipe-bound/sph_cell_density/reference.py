"""Reference of sph_cell_density."""

import math

import torch


def particle_density(
    px: torch.Tensor, py: torch.Tensor, pz: torch.Tensor, mass: torch.Tensor
) -> torch.Tensor:
    """Return the density at each particle (edge, edge, edge, 16), from its cell and the 26 around.

    Coordinates are relative to the corner of the particle's cell; the support is one cell.
    """
    edge = px.shape[0]
    padded = [torch.nn.functional.pad(p, (0, 0, 1, 1, 1, 1, 1, 1)) for p in (px, py, pz, mass)]
    density = torch.zeros_like(px)
    for dz in range(3):
        for dy in range(3):
            for dx in range(3):
                box = (slice(dz, dz + edge), slice(dy, dy + edge), slice(dx, dx + edge))
                ox, oy, oz, om = (p[box] for p in padded)
                for slot in range(16):
                    other = slice(slot, slot + 1)
                    rx = ox[..., other] + (dx - 1) - px
                    ry = oy[..., other] + (dy - 1) - py
                    rz = oz[..., other] + (dz - 1) - pz
                    rest = (1 - rx * rx - ry * ry - rz * rz).clamp(min=0)
                    density += om[..., other] * rest**3
    return density * (315 / (64 * math.pi))
