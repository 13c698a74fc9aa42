"""Reference of query_key_scores_fp32_dot."""

import torch


def compare(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Return the dot product of each query with each key: (m, n)."""
    return queries @ keys.T
