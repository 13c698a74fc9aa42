"""Reference of soft_triangles_few_rays."""

import torch


def trace(
    origins: torch.Tensor,
    directions: torch.Tensor,
    triangles: torch.Tensor,
    opacities: torch.Tensor,
) -> torch.Tensor:
    """Return the share of light that passes all triangles on each ray: (rays)."""
    corner = triangles[:, 0]
    edge1, edge2 = triangles[:, 1] - corner, triangles[:, 2] - corner
    light = []
    for first in range(0, len(origins), 512):
        origin = origins[first : first + 512, None]
        direction = directions[first : first + 512, None]
        side = torch.linalg.cross(*torch.broadcast_tensors(direction, edge2[None]))
        determinant = (edge1 * side).sum(2)
        inverse = determinant / (determinant.square() + 1e-6)
        offset = origin - corner
        turned = torch.linalg.cross(*torch.broadcast_tensors(offset, edge1[None]))
        u = (offset * side).sum(2) * inverse
        v = (direction * turned).sum(2) * inverse
        distance = (edge2 * turned).sum(2) * inverse
        edge = torch.minimum(torch.minimum(u, v), 1 - u - v)
        inside = (0.5 + 8 * edge).clamp(0, 1) * (4 * distance).clamp(0, 1)
        light.append((1 - opacities * inside).prod(1))
    return torch.cat(light)
