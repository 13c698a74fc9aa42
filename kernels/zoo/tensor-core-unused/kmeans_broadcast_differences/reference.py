"""Reference of kmeans_broadcast_differences."""

import torch


def assign(points: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
    """Return the squared distance of each point to the nearest center: (n)."""
    nearest = points.new_full((len(points),), float("inf"))
    for center in centers:
        nearest = torch.minimum(nearest, (points - center).square().sum(1))
    return nearest
