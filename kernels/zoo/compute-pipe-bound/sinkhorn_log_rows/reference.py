"""Reference of sinkhorn_log_rows."""

import torch


def sinkhorn_rows(
    cost: torch.Tensor, column_potential: torch.Tensor, log_mass: torch.Tensor, epsilon: float
) -> torch.Tensor:
    """Return epsilon (log mass - logsumexp of (potential - cost) / epsilon) (batch, n)."""
    sums = [
        torch.logsumexp((potential[None, :] - cost) / epsilon, dim=1)
        for potential in column_potential
    ]
    return epsilon * (log_mass - torch.stack(sums))
