"""Reference of charge_to_clustered_cells."""

import torch

EDGE = 64


def deposit(draws: torch.Tensor, charges: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Return start plus the charges, each shared by four cells; a place is 64 times draw**4."""
    places = draws.abs().clamp(max=1) ** 4 * EDGE
    whole = places.floor()
    beyond, cell = places - whole, whole.long() % EDGE
    after = (cell + 1) % EDGE
    cells = start.flatten().clone()
    for x, share_x in ((cell[:, 0], 1 - beyond[:, 0]), (after[:, 0], beyond[:, 0])):
        for y, share_y in ((cell[:, 1], 1 - beyond[:, 1]), (after[:, 1], beyond[:, 1])):
            cells.index_add_(0, y * EDGE + x, charges * share_x * share_y)
    return cells.view(EDGE, EDGE)
