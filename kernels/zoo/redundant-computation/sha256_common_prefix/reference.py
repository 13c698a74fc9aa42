"""Reference of sha256_common_prefix."""

import torch

MASK = 0xFFFFFFFF
# fmt: off
ROUND_CONSTANTS = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
]
START = [
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
    0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
]
# fmt: on


def rotate(x: torch.Tensor, count: int) -> torch.Tensor:
    """Return 32-bit words, in int64, rotated to the right."""
    return ((x >> count) | (x << (32 - count))) & MASK


def compress(state: list[torch.Tensor], block: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the state after one block of 16 words."""
    w = list(block)
    for i in range(16, 64):
        low = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3)
        high = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10)
        w.append((w[i - 16] + low + w[i - 7] + high) & MASK)
    a, b, c, d, e, f, g, h = state
    for constant, word in zip(ROUND_CONSTANTS, w, strict=True):
        choice = (e & f) ^ ((e ^ MASK) & g)
        first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice + constant + word
        majority = (a & b) ^ (a & c) ^ (b & c)
        second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority
        a, b, c, d, e, f, g, h = (first + second) & MASK, a, b, c, (d + first) & MASK, e, f, g
    return [(old + new) & MASK for old, new in zip(state, (a, b, c, d, e, f, g, h), strict=True)]


def hash_items(prefix: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    """Return SHA-256 of prefix and item, read as big-endian words, int32 (n, 8)."""
    shared = prefix.long()
    state = [torch.full_like(shared[0], word) for word in START]
    for block in range(2):
        state = compress(state, list(shared[16 * block : 16 * block + 16]))
    zero = torch.zeros_like(items[:, 0], dtype=torch.int64)
    end = [zero + 0x80000000, *[zero] * 6, zero + 160 * 8]
    state = compress(state, [*items.long().unbind(1), *end])
    return torch.stack(state, dim=1).int()
