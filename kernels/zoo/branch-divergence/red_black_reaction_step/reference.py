"""Reference of red_black_reaction_step."""

import torch


def relax(start: torch.Tensor) -> torch.Tensor:
    """Solve v + v^3 / 10 = 0.22 * (sum of four neighbours) in cells with even row + column."""
    padded = torch.nn.functional.pad(start, (1, 1, 1, 1))
    neighbours = (padded[1:-1, :-2] + padded[1:-1, 2:]) + (padded[:-2, 1:-1] + padded[2:, 1:-1])
    target = 0.22 * neighbours
    value = target
    for _ in range(96):
        value = target - 0.1 * value * value * value
    rows = torch.arange(start.shape[0], device=start.device)[:, None]
    cols = torch.arange(start.shape[1], device=start.device)
    return torch.where((rows + cols) % 2 == 0, value, start)
