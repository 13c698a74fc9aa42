"""Reference of american_put_tree."""

import torch

RATE = 0.03
VOLATILITY = 0.3
SHORTEST_EXPIRY = 0.25


def american_puts(
    spots: torch.Tensor, strikes: torch.Tensor, expiries: torch.Tensor, steps: int
) -> torch.Tensor:
    """Return the prices of American puts (options), by a binomial tree of the given steps."""
    dt = ((SHORTEST_EXPIRY + expiries) / steps)[:, None]
    log_up = VOLATILITY * torch.sqrt(dt)
    up, down, growth = torch.exp(log_up), torch.exp(-log_up), torch.exp(RATE * dt)
    chance = (growth - down) / (up - down)
    spot, strike = spots[:, None], strikes[:, None]
    nodes = torch.arange(steps + 1, device=spots.device, dtype=spots.dtype)
    values = (strike - spot * torch.exp(log_up * (2 * nodes - steps))).clamp(min=0)
    for level in range(steps - 1, -1, -1):
        held = (chance * values[:, 1:] + (1 - chance) * values[:, :-1]) / growth
        exercised = strike - spot * torch.exp(log_up * (2 * nodes[: level + 1] - level))
        values = torch.maximum(held, exercised)
    return values[:, 0]
