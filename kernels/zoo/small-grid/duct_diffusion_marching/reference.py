"""Reference of duct_diffusion_marching."""

import torch


def duct_diffusion(u: torch.Tensor) -> torch.Tensor:
    """Return u (nz, ny, nx) after one explicit diffusion step with insulated walls."""
    change = -6.0 * u
    for axis in range(3):
        size = u.shape[axis]
        index = torch.arange(size, device=u.device)
        for step in (-1, 1):
            change = change + u.index_select(axis, (index + step).clamp(0, size - 1))
    return u + 0.1 * change
