"""Reference of dictionary_decode_words."""

import torch


def decode(codes: torch.Tensor, dictionary: torch.Tensor) -> torch.Tensor:
    """Return the entry of each code, which counts modulo the entries, int32 (n, 16)."""
    return dictionary[codes % dictionary.shape[0]]
