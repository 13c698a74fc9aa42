"""Reference of weights_moving_average."""

import torch


def update_average(weights: torch.Tensor, old: torch.Tensor, decay: float) -> torch.Tensor:
    """Return decay times the old average and the rest of the weights."""
    return old * decay + weights.to(old.dtype) * (1.0 - decay)
