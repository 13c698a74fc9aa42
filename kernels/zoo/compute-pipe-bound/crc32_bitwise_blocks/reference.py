"""Reference of crc32_bitwise_blocks."""

import torch

POLYNOMIAL = 0xEDB88320
MASK = 0xFFFFFFFF


def make_table(device: torch.device) -> torch.Tensor:
    """Return the remainder that each byte leaves, int64 (256)."""
    table = torch.arange(256, device=device)
    for _ in range(8):
        table = (table >> 1) ^ (POLYNOMIAL * (table & 1))
    return table


def compute_checksums(words: torch.Tensor) -> torch.Tensor:
    """Return the CRC-32 of each column, bytes of a word from the lowest on, int32 (n)."""
    table = make_table(words.device)
    crc = torch.full(words.shape[1:], MASK, dtype=torch.int64, device=words.device)
    for row in words:
        crc = crc ^ row.long()
        for _ in range(4):
            crc = (crc >> 8) ^ table[crc & 255]
    return (crc ^ MASK).int()
