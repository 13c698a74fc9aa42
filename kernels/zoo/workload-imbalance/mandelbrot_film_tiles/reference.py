"""Reference of mandelbrot_film_tiles."""

import torch

_HEIGHT, _WIDTH = 480, 640
_MAX_ITERATIONS = 256


def render_film(centers: torch.Tensor) -> torch.Tensor:
    """Return iterations until |z| > 2, at most 256, int32 (frames, 480, 640)."""
    scale = 3.2 / _WIDTH
    columns = torch.arange(_WIDTH, dtype=centers.dtype, device=centers.device)
    rows = torch.arange(_HEIGHT, dtype=centers.dtype, device=centers.device)
    left = centers[:, 0, None, None] - 0.6 - 0.5 * scale * _WIDTH
    top = centers[:, 1, None, None] - 0.5 * scale * _HEIGHT
    cr = (left + scale * columns).expand(-1, _HEIGHT, -1)
    ci = (top + scale * rows[:, None]).expand(-1, -1, _WIDTH)
    zr, zi = torch.zeros_like(cr), torch.zeros_like(ci)
    counts = torch.zeros(cr.shape, dtype=torch.int32, device=centers.device)
    inside = torch.ones_like(cr, dtype=torch.bool)
    for _ in range(_MAX_ITERATIONS):
        rr, ii = zr * zr, zi * zi
        inside = inside & (rr + ii <= 4.0)
        counts += inside.to(torch.int32)
        zi = torch.where(inside, 2.0 * zr * zi + ci, zi)
        zr = torch.where(inside, rr - ii + cr, zr)
    return counts
