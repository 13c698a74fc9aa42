"""Reference of bias_gradient_cas_loop."""

import torch


def sum_columns(gradients: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Return start plus the sum of each column, fp64 (cols)."""
    return start.double() + gradients.sum(dim=0, dtype=torch.float64)
