"""Reference of heat_step_small_boxes."""

import torch


def heat_step(cells: torch.Tensor) -> torch.Tensor:
    """Return the cells plus 0.2 times the flow from their four neighbours; outside is zero."""
    padded = torch.nn.functional.pad(cells, (1, 1, 1, 1))
    around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    return cells + 0.2 * (around - 4 * cells)
