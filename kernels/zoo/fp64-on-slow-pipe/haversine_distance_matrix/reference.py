"""Reference of haversine_distance_matrix."""

import math

import torch


def haversine_matrix(
    lat_a: torch.Tensor, lon_a: torch.Tensor, lat_b: torch.Tensor, lon_b: torch.Tensor
) -> torch.Tensor:
    """Return the great-circle distance in km between each point of a and each of b (n, m)."""
    radians = math.pi / 180.0
    sin_lat = torch.sin((lat_b[None, :] - lat_a[:, None]) * (0.5 * radians))
    sin_lon = torch.sin((lon_b[None, :] - lon_a[:, None]) * (0.5 * radians))
    cosines = torch.cos(lat_a * radians)[:, None] * torch.cos(lat_b * radians)[None, :]
    h = (sin_lat * sin_lat + cosines * sin_lon * sin_lon).clamp(max=1.0)
    return 2.0 * 6371.0088 * torch.asin(torch.sqrt(h))
