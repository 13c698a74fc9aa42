"""Reference of feature_pair_products."""

import torch


def interact(features: torch.Tensor) -> torch.Tensor:
    """Return the products of each embedding with those before it, row after row."""
    rows, columns = torch.tril_indices(27, 27, offset=-1, device=features.device)
    return (features @ features.transpose(1, 2))[:, rows, columns]
