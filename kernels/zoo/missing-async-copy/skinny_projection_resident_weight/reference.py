"""Reference of skinny_projection_resident_weight."""

import torch


def project(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return x @ weight (tokens, 32)."""
    return x @ weight
