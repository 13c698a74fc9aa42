"""Reference of bond_yields_newton."""

import torch

PERIODS = 40
STEPS = 6


def make_bonds(n: int) -> list[torch.Tensor]:
    """Return prices and coupons of bonds whose yields lie between 0.5 % and 5 % a period."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    coupons = 0.005 + 0.04 * torch.rand(n, device=device)
    yields = 0.005 + 0.045 * torch.rand(n, device=device)
    return [quote(coupons.double(), yields.double(), PERIODS)[0].float(), coupons]


def quote(
    coupons: torch.Tensor, yields: torch.Tensor, periods: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return values of bonds, and their derivatives by the yields."""
    growth = 1 + yields
    discount = torch.ones_like(growth)
    value = torch.zeros_like(growth)
    weighted = torch.zeros_like(growth)
    for period in range(1, periods + 1):
        discount = discount / growth
        value = value + coupons * discount
        weighted = weighted + period * coupons * discount
    return value + discount, -(weighted + periods * discount) / growth


def solve_yields(
    prices: torch.Tensor, coupons: torch.Tensor, periods: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return yields a period and modified durations in periods, (n) each."""
    yields = coupons
    value, slope = quote(coupons, yields, periods)
    for _ in range(STEPS):
        yields = yields - (value - prices) / slope
        value, slope = quote(coupons, yields, periods)
    return yields, -slope / value
