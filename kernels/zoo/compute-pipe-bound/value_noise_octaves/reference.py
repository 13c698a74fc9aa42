"""Reference of value_noise_octaves."""

import torch

_PITCH = 3.0 / 512.0
_LATTICE = 64


def noise_image(
    terrain: torch.Tensor,
    lattice: torch.Tensor,
    gain: float,
    lacunarity: float,
    octaves: int,
) -> torch.Tensor:
    """Return the terrain plus octaves of smoothly interpolated lattice values."""
    height, width = terrain.shape
    xs = torch.arange(width, device=lattice.device, dtype=lattice.dtype) * _PITCH
    ys = torch.arange(height, device=lattice.device, dtype=lattice.dtype) * _PITCH
    image = terrain.clone()
    for octave in range(int(octaves)):
        frequency, amplitude = lacunarity**octave, gain**octave
        x0, x1, u = _split(xs * frequency)
        y0, y1, v = _split(ys * frequency)
        top = torch.lerp(lattice[y0][:, x0], lattice[y0][:, x1], u[None, :])
        bottom = torch.lerp(lattice[y1][:, x0], lattice[y1][:, x1], u[None, :])
        image += amplitude * (top + v[:, None] * (bottom - top))
    return image


def _split(position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    cell = torch.floor(position)
    first = cell.long() % _LATTICE
    t = position - cell
    return first, (first + 1) % _LATTICE, t * t * (3.0 - 2.0 * t)
