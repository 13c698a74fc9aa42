"""Reference of speck64_counter_stream."""

import torch

MASK = 0xFFFFFFFF


def rotate(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Return words of 32 bits, held as int64, rotated to the left."""
    return ((words << bits) | (words >> (32 - bits))) & MASK


def encrypt(data: torch.Tensor, round_keys: torch.Tensor, nonce: torch.Tensor) -> torch.Tensor:
    """Return the data combined with the encrypted counters, int32 (n, 4); a row is two blocks."""
    count = 2 * data.shape[0]
    y = torch.arange(count, dtype=torch.int64, device=data.device)
    x = torch.zeros_like(y) + (nonce.long() & MASK)
    for key in (round_keys.long() & MASK).tolist():
        x = ((rotate(x, 24) + y) & MASK) ^ key
        y = rotate(y, 3) ^ x
    stream = torch.stack((y, x), 1).view(-1, 4)
    mixed = (data.long() & MASK) ^ stream
    return torch.where(mixed >= 1 << 31, mixed - (1 << 32), mixed).to(torch.int32)
