"""Reference of polygon_areas."""

import torch


def make_polygons(vertices: int, polygons: int) -> list[torch.Tensor]:
    """Return points and the first vertex of each polygon: many are small, a few are long coasts."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rank = torch.randperm(polygons, device=device).double() + 1
    ends = rank.pow(-0.6).cumsum(0)
    starts = ((ends / ends[-1]).roll(1) * vertices).int()
    starts[0] = 0
    return [torch.randn(vertices, 2, device=device), starts]


def measure(points: torch.Tensor, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the signed area and the length of the border of each polygon, (polygons)."""
    vertices, polygons = points.shape[0], starts.shape[0]
    at = torch.arange(vertices, device=points.device)
    owner = torch.searchsorted(starts.long(), at, right=True) - 1
    last = torch.cat((starts[1:].long(), starts.new_full((1,), vertices).long()))
    following = torch.where(at + 1 < last[owner], at + 1, starts.long()[owner])
    after = points[following]
    cross = points[:, 0] * after[:, 1] - points[:, 1] * after[:, 0]
    length = (after - points).square().sum(1).sqrt()
    nothing = torch.zeros(polygons, dtype=points.dtype, device=points.device)
    return nothing.index_add(0, owner, 0.5 * cross), nothing.index_add(0, owner, length)
