"""Reference of covariance_tile_16x16_a_thread."""

import torch


def cross_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the transpose of a (k, m) times b (k, n)."""
    return a.T @ b
