"""Reference of harmonic_colors_of_points."""

import torch


def shade(directions: torch.Tensor, coefficients: torch.Tensor) -> torch.Tensor:
    """Return the colors: (n, 3), with 0.5 added and none below zero."""
    length = (directions.square().sum(1, keepdim=True) + 1e-12).sqrt()
    x, y, z = (directions / length).unbind(1)
    xx, yy, zz = x * x, y * y, z * z
    basis = torch.stack(
        [
            0.28209479 * torch.ones_like(x),
            -0.48860251 * y,
            0.48860251 * z,
            -0.48860251 * x,
            1.09254843 * x * y,
            -1.09254843 * y * z,
            0.31539157 * (2 * zz - xx - yy),
            -1.09254843 * x * z,
            0.54627422 * (xx - yy),
            -0.59004359 * y * (3 * xx - yy),
            2.89061144 * x * y * z,
            -0.45704580 * y * (4 * zz - xx - yy),
            0.37317633 * z * (2 * zz - 3 * xx - 3 * yy),
            -0.45704580 * x * (4 * zz - xx - yy),
            1.44530572 * z * (xx - yy),
            -0.59004359 * x * (xx - 3 * yy),
        ],
        dim=1,
    )
    return ((basis[..., None] * coefficients).sum(1) + 0.5).clamp(min=0)
