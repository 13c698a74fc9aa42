"""Reference of nearest_centroid_full_occupancy."""

import torch


def nearest_distance(points: torch.Tensor, centroids: torch.Tensor) -> torch.Tensor:
    """Return the squared distance of each point to the nearest centroid, (n)."""
    nearest = points.new_full((points.shape[1],), float("inf"))
    for centroid in centroids:
        difference = points - centroid[:, None]
        nearest = torch.minimum(nearest, (difference * difference).sum(dim=0))
    return nearest
