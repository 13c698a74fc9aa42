"""Reference of message_digest_64_bytes."""

import torch

_MASK = 0xFFFFFFFF


def _rotate(x: torch.Tensor, bits: int) -> torch.Tensor:
    return ((x << bits) & _MASK) | (x >> (32 - bits))


def digest_messages(messages: torch.Tensor) -> torch.Tensor:
    """Return a digest of 32 bits of each column of sixteen words, int32 (n)."""
    words = list((messages.to(torch.int64) & _MASK).unbind(0))
    a = torch.full_like(words[0], 0x2545F491)
    b = torch.full_like(words[0], 0x9E3779B9)
    c = torch.full_like(words[0], 0x85EBCA6B)
    for step in range(128):
        early, late = words[(step + 1) % 16], words[(step + 14) % 16]
        word = words[step % 16] + (_rotate(early, 7) ^ (early >> 3)) + words[(step + 9) % 16]
        word = (word + (_rotate(late, 15) ^ (late >> 10))) & _MASK
        words[step % 16] = word
        mixed = (_rotate(a, 11) + ((a & b) ^ ((a ^ _MASK) & c)) + word) & _MASK
        a, b, c = (c + mixed) & _MASK, mixed ^ _rotate(b, 19), b
    digest = a ^ b ^ c
    return torch.where(digest >= 2**31, digest - 2**32, digest).to(torch.int32)
