"""Reference of codebook_best_score."""

import torch


def score(vectors: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Return the largest dot product of each vector with a code: (n)."""
    return (vectors @ codes.T).amax(1)
