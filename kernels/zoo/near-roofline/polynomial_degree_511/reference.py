"""Reference of polynomial_degree_511."""

import torch


def evaluate(x: torch.Tensor, coefficients: torch.Tensor) -> torch.Tensor:
    """Return the polynomial at x; the first coefficient belongs to the highest power."""
    y = torch.zeros_like(x)
    for coefficient in coefficients:
        y = y * x + coefficient
    return y
