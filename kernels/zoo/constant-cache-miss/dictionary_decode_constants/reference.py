"""Reference of dictionary_decode_constants."""

import torch


def decode(codes: torch.Tensor, dictionary: torch.Tensor) -> torch.Tensor:
    """Return the dictionary value of each code (n, 4)."""
    return dictionary[codes.int()]
