"""Reference of chacha20_keystream."""

import torch

MASK = 0xFFFFFFFF
LETTERS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
ROUNDS = (
    *((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)),
    *((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)),
)


def mix(x: list[torch.Tensor], a: int, b: int, c: int, d: int) -> None:
    """Do a quarter round in place; words are 32 bits in int64."""
    for left, right, target, count in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        x[left] = (x[left] + x[right]) & MASK
        mixed = x[target] ^ x[left]
        x[target] = ((mixed << count) | (mixed >> (32 - count))) & MASK


def make_keystream(key: torch.Tensor, nonce: torch.Tensor, counters: torch.Tensor) -> torch.Tensor:
    """Return the block of each counter, int32 (n, 16)."""
    counter = counters.long()
    zero = torch.zeros_like(counter)
    words = [*LETTERS, *key.long(), counter, *nonce.long()]
    start = [zero + word for word in words]
    x = list(start)
    for _ in range(10):
        for quarter in ROUNDS:
            mix(x, *quarter)
    return torch.stack([(a + b) & MASK for a, b in zip(x, start, strict=True)], dim=1).int()
