"""Reference of rays_nearest_sphere."""

import torch


def trace_rays(
    directions: torch.Tensor, centers: torch.Tensor, radii: torch.Tensor
) -> torch.Tensor:
    """Return the distance along each ray from the origin to the first sphere, or 64 (rays)."""
    x, y, z = (directions / directions.square().sum(1, keepdim=True).sqrt()).unbind(1)
    nearest = torch.full_like(x, 64.0)
    for center, radius in zip(centers, radii, strict=True):
        along = center[0] * x + center[1] * y + center[2] * z
        squares = (center[0] - along * x) ** 2 + (center[1] - along * y) ** 2
        inside = radius * radius - (squares + (center[2] - along * z) ** 2)
        depth = along - inside.clamp(min=0).sqrt()
        hit = (inside > 0) & (depth > 0) & (depth < nearest)
        nearest = torch.where(hit, depth, nearest)
    return nearest
