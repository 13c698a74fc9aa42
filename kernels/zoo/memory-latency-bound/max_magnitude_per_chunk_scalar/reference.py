"""Reference of max_magnitude_per_chunk_scalar."""

import torch


def chunk_max(x: torch.Tensor) -> torch.Tensor:
    """Return the largest magnitude of each chunk (chunks)."""
    return x.abs().amax(1)
