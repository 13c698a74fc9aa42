"""Reference of star_stencil_25_points."""

import torch


def star_stencil(volume: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the weighted sum of each interior cell and its 24 neighbours along the axes."""
    nz, ny, nx = (size - 8 for size in volume.shape)

    def shift(dz: int, dy: int, dx: int) -> torch.Tensor:
        return volume[4 + dz : 4 + dz + nz, 4 + dy : 4 + dy + ny, 4 + dx : 4 + dx + nx]

    out = weights[0] * shift(0, 0, 0)
    for r in range(1, 5):
        ring = shift(r, 0, 0) + shift(-r, 0, 0)
        ring += shift(0, r, 0)
        ring += shift(0, -r, 0)
        ring += shift(0, 0, r)
        ring += shift(0, 0, -r)
        out += ring.mul_(weights[r])
    return out
