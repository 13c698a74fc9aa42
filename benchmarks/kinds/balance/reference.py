"""Reference for balance."""

import torch

RATE = 1 / 256


def balance(opening: torch.Tensor, months: torch.Tensor) -> torch.Tensor:
    """opening, (n,), after months, (n,), of 1/256 interest each, then a deposit of 1."""
    grown = torch.pow(torch.full_like(opening, 1 + RATE), months)
    return opening * grown + (grown - 1) / RATE
