"""Reference of windowed_moments_block_columns."""

import torch


def column_moments(samples: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the means of x, x * x and x * target of each column in each window."""
    products = samples * target[..., None]
    return torch.stack(
        (samples.mean(dim=1), samples.square().mean(dim=1), products.mean(dim=1)), dim=1
    )
