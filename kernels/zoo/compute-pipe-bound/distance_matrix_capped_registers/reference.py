"""Reference of distance_matrix_capped_registers."""

import torch


def distance_matrix(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the squared Euclidean distances of the columns of a (k, m) and b (k, n)."""
    c = torch.zeros(a.shape[1], b.shape[1], dtype=a.dtype, device=a.device)
    for p in range(a.shape[0]):
        c += (a[p, :, None] - b[p]).square_()
    return c
