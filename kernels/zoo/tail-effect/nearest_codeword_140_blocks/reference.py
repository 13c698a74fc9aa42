"""Reference of nearest_codeword_140_blocks."""

import torch


def nearest_distance(points: torch.Tensor, codebook: torch.Tensor) -> torch.Tensor:
    """Return the smallest squared distance of each column of points to a codeword (n)."""
    parts = []
    for chunk in points.T.split(2048):
        squared = sum((chunk[:, None, d] - codebook[None, :, d]).square() for d in range(32))
        parts.append(squared.amin(1))
    return torch.cat(parts)
