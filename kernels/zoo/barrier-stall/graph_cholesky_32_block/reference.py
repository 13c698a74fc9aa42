"""Reference of graph_cholesky_32_block."""

import torch


def factor(weights: torch.Tensor) -> torch.Tensor:
    """Return the factors of I + D - W: (matrices, 32, 32).

    W is symmetric with the strict lower triangle of weights, D has the row sums of |W|.
    """
    lower = torch.tril(weights, -1)
    symmetric = lower + lower.mT
    damped = torch.diag_embed(1 + symmetric.abs().sum(2)) - symmetric
    return torch.linalg.cholesky_ex(damped).L.tril()
