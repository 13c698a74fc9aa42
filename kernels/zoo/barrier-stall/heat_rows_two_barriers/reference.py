"""Reference of heat_rows_two_barriers."""

import torch


def heat(start: torch.Tensor, conductivity: torch.Tensor) -> torch.Tensor:
    """Return the cells after 128 steps with closed ends (rows, 1024)."""
    cells = start
    for _ in range(128):
        left = torch.cat((cells[:, :1], cells[:, :-1]), dim=1)
        right = torch.cat((cells[:, 1:], cells[:, -1:]), dim=1)
        cells = cells + conductivity * (left - 2 * cells + right)
    return cells
