"""Reference of sdf_segment_opacity."""

import torch

_STEPS = 64
_STEP = 4.0 / _STEPS


def segment_opacity(
    kind: torch.Tensor, origin: torch.Tensor, direction: torch.Tensor
) -> torch.Tensor:
    """Return the opacity of each segment through the distance field of its shape (n)."""
    unit = direction / torch.sqrt((direction * direction).sum(0) + 0.01)
    depth = torch.zeros_like(origin[0])
    for shape in range(8):
        chosen = (kind == shape).nonzero()[:, 0]
        start, along = origin[:, chosen], unit[:, chosen]
        total = torch.zeros_like(start[0])
        for step in range(_STEPS):
            x, y, z = start + _STEP * (step + 0.5) * along
            total += _STEP * (1.0 - _distance(shape, x, y, z)).clamp(min=0.0)
        depth[chosen] = total
    return 1.0 - torch.exp(-depth)


def _length(*parts: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(sum(part * part for part in parts))


def _distance(shape: int, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    if shape == 0:
        return _length(x, y, z) - 1.0
    if shape == 1:
        q = [x.abs() - 0.8, y.abs() - 0.6, z.abs() - 0.7]
        inside = torch.maximum(q[0], torch.maximum(q[1], q[2])).clamp(max=0.0)
        return _length(*(part.clamp(min=0.0) for part in q)) + inside
    if shape == 2:
        return _length(_length(x, z) - 1.0, y) - 0.35
    if shape == 3:
        along = (0.4 * x + 0.5 * y + 0.3 * z).clamp(0.0, 1.0)
        return _length(x - along, y - 0.9 * along, z - 0.5 * along) - 0.4
    if shape == 4:
        side, cap = _length(x, z) - 0.7, y.abs() - 0.9
        inside = torch.maximum(side, cap).clamp(max=0.0)
        return _length(side.clamp(min=0.0), cap.clamp(min=0.0)) + inside
    if shape == 5:
        outer = _length(x, 1.25 * y, 2.0 * z)
        return outer * (outer - 1.0) / (_length(x, 1.5625 * y, 4.0 * z) + 1.0e-3)
    if shape == 6:
        return torch.maximum(0.8 * _length(x, z) + 0.6 * (y - 1.0), -0.5 - y)
    sx, sy, sz = torch.sin(3.0 * x), torch.sin(3.0 * y), torch.sin(3.0 * z)
    cx, cy, cz = torch.cos(3.0 * x), torch.cos(3.0 * y), torch.cos(3.0 * z)
    return (sx * cy + sy * cz + sz * cx) / 3.0
