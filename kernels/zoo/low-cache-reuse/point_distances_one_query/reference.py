"""Reference of point_distances_one_query."""

import torch


def squared_distances(points: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
    """Return the squared Euclidean distance of each query to each column of points."""
    out = torch.zeros(len(queries), points.shape[1], dtype=points.dtype, device=points.device)
    for d in range(points.shape[0]):
        out += (queries[:, d, None] - points[d]).square_()
    return out
