"""Reference of aes128_counter_mode."""

import torch

ROUNDS = 10
MASK = 0xFFFFFFFF


def multiply(left: int, right: int) -> int:
    """Return a product of bytes in the field of AES."""
    product = 0
    while right:
        product ^= left * (right & 1)
        left = (left << 1) ^ (0x11B * (left >> 7))
        right >>= 1
    return product


def substitute_byte(byte: int) -> int:
    """Return the entry of a byte in the S-box."""
    inverse = next((other for other in range(256) if multiply(byte, other) == 1), 0)
    turned = 0
    for bits in range(5):
        turned ^= (inverse << bits) | (inverse >> (8 - bits))
    return (turned ^ 0x63) & 0xFF


S_BOX = [substitute_byte(byte) for byte in range(256)]


def encrypt(data: torch.Tensor, keys: torch.Tensor, nonce: torch.Tensor) -> torch.Tensor:
    """Return the data combined with the encrypted counters {nonce, i}, int32 (n, 4)."""
    n = data.shape[0]
    box = torch.tensor(S_BOX, dtype=torch.int64, device=data.device)
    double = torch.tensor([multiply(s, 2) for s in S_BOX], device=data.device)
    rounds = (keys.long() & MASK).view(ROUNDS + 1, 4).tolist()
    words = [torch.full((n,), word & MASK, device=data.device) for word in nonce.tolist()]
    words.append(torch.arange(n, device=data.device))
    words = [word ^ key for word, key in zip(words, rounds[0], strict=True)]
    for number in range(1, ROUNDS + 1):
        # Bytes after ShiftRows: of column i, row r comes from column i + r.
        bytes_of = [
            [(words[(i + r) % 4] >> (24 - 8 * r)) & 0xFF for r in range(4)] for i in range(4)
        ]
        new = []
        for i in range(4):
            once = [box[byte] for byte in bytes_of[i]]
            if number < ROUNDS:
                two = [double[byte] for byte in bytes_of[i]]
                once = [
                    two[r]
                    ^ two[(r + 1) % 4]
                    ^ once[(r + 1) % 4]
                    ^ once[(r + 2) % 4]
                    ^ once[(r + 3) % 4]
                    for r in range(4)
                ]
            word = (once[0] << 24) | (once[1] << 16) | (once[2] << 8) | once[3]
            new.append(word ^ rounds[number][i])
        words = new
    mixed = (data.long() & MASK) ^ torch.stack(words, 1)
    return torch.where(mixed >= 1 << 31, mixed - (1 << 32), mixed).to(torch.int32)
