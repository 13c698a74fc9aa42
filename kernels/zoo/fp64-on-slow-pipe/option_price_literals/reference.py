"""Reference of option_price_literals."""

import torch


def price_calls(
    moneyness: torch.Tensor, years: torch.Tensor, volatility: torch.Tensor
) -> torch.Tensor:
    """Return Black-Scholes prices of calls for a strike of 1 and a rate of 2 %: (n)."""
    spot, time, sigma = moneyness + 0.5, years + 0.25, 0.5 * volatility + 0.1
    spread = sigma * time.sqrt()
    d1 = (spot.log() + (0.02 + 0.5 * sigma * sigma) * time) / spread
    d2 = d1 - spread
    return 0.5 * (
        spot * torch.special.erfc(-0.70710678 * d1)
        - torch.exp(-0.02 * time) * torch.special.erfc(-0.70710678 * d2)
    )
