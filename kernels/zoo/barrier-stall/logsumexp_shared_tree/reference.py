"""Reference of logsumexp_shared_tree."""

import torch


def logsumexp(x: torch.Tensor) -> torch.Tensor:
    """Return the log-sum-exp of each row (rows)."""
    return torch.logsumexp(x, dim=1)
