"""Reference of filter_orders_by_day."""

import torch

FIRST_DAY, LAST_DAY = 1000, 1030


def select_orders(
    days: torch.Tensor,
    prices: torch.Tensor,
    discounts: torch.Tensor,
    taxes: torch.Tensor,
    weights: torch.Tensor,
    rates: torch.Tensor,
    start: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the costs of chosen rows, packed in each tile over start, and how many there are."""
    keep = (days >= FIRST_DAY) & (days < LAST_DAY)
    costs = prices * (1 - discounts) * (1 + taxes) + weights * rates
    order = (~keep).to(torch.uint8).sort(dim=1, stable=True).indices
    counts = keep.sum(1, dtype=torch.int32)
    is_filled = torch.arange(keep.shape[1], device=days.device) < counts[:, None]
    return torch.where(is_filled, costs.gather(1, order), start), counts
