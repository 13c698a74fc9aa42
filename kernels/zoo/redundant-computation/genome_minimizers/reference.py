"""Reference of genome_minimizers."""

import torch

LETTERS = 15
WINDOW = 24
NONE = 2**31 - 1


def hash_words(words: torch.Tensor) -> torch.Tensor:
    """Return 31 mixed bits of each word, as int64."""
    mixed = (words * 0x9E3779B1) & 0xFFFFFFFF
    mixed = mixed ^ (mixed >> 15)
    mixed = (mixed * 0x85EBCA77) & 0xFFFFFFFF
    return (mixed ^ (mixed >> 13)) >> 1


def minimize(letters: torch.Tensor) -> torch.Tensor:
    """Return the least hash of the 24 words of 15 letters from each letter on, int32 (n)."""
    n = letters.shape[0]
    hashes = torch.full((n + WINDOW,), NONE, dtype=torch.int64, device=letters.device)
    count = n - LETTERS + 1
    if count > 0:
        words = torch.zeros(count, dtype=torch.int64, device=letters.device)
        for place in range(LETTERS):
            words = words * 4 + letters[place : place + count]
        hashes[:count] = hash_words(words)
    least = hashes[:n].clone()
    for place in range(1, WINDOW):
        least = torch.minimum(least, hashes[place : place + n])
    return least.to(torch.int32)
