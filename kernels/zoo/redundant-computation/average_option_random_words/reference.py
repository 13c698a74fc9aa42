"""Reference of average_option_random_words."""

import math

import torch

MASK = 0xFFFFFFFF
SEED = 2026


def scramble(path: torch.Tensor, block: int, option: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return four random words below 2**32 for each option and path."""
    zero = torch.zeros_like(path + option)
    x, y, z, w = path + zero, block + zero, zero, zero
    key0, key1 = option + zero, SEED + zero
    for _ in range(10):
        first, second = 0xD2511F53 * x, 0xCD9E8D57 * z
        x, y, z, w = (
            ((second >> 32) & MASK) ^ y ^ key0,
            second & MASK,
            ((first >> 32) & MASK) ^ w ^ key1,
            first & MASK,
        )
        key0, key1 = (key0 + 0x9E3779B9) & MASK, (key1 + 0xBB67AE85) & MASK
    return x, y, z, w


def average_payoffs(
    spots: torch.Tensor, volatilities: torch.Tensor, paths: int, steps: int
) -> torch.Tensor:
    """Return what each path pays: its mean price above today's, or nothing: (options, paths)."""
    device, dtype = spots.device, spots.dtype
    path = torch.arange(paths, device=device)[None, :]
    option = torch.arange(len(spots), device=device)[:, None]
    spread = volatilities[:, None] * math.sqrt(1 / steps)
    drift = -0.5 * volatilities[:, None].square() / steps
    growth = torch.zeros(len(spots), paths, device=device, dtype=dtype)
    total = torch.zeros_like(growth)
    for step in range(steps):
        if step % 4 == 0:
            words = scramble(path, step // 4, option)
            uniform = [(word >> 8).to(dtype) / 2**24 + 1 / 2**25 for word in words]
        first, second = uniform[step % 4 // 2 * 2], uniform[step % 4 // 2 * 2 + 1]
        turn = torch.cos if step % 2 == 0 else torch.sin
        normal = torch.sqrt(-2 * torch.log(first)) * turn(2 * math.pi * second)
        growth = growth + drift + spread * normal
        total = total + torch.exp(growth)
    return (spots[:, None] * (total / steps - 1)).clamp(min=0)
