"""Reference of isosurface_cell_edges."""

import torch


def classify_cells(field: torch.Tensor, level: float) -> torch.Tensor:
    """Return how many edges of each cell the level cuts, uint8 (depth, h, w); edges replicate."""
    above = field > level
    for axis in range(3):  # a last layer equal to the former one completes the cells at the end
        last = above.narrow(axis, above.shape[axis] - 1, 1)
        above = torch.cat((above, last), axis)
    depth, height, width = field.shape
    count = torch.zeros(field.shape, dtype=torch.uint8, device=field.device)

    def corner(z: int, y: int, x: int) -> torch.Tensor:
        return above[z : z + depth, y : y + height, x : x + width]

    for i in (0, 1):
        for j in (0, 1):
            count += corner(0, i, j) ^ corner(1, i, j)
            count += corner(i, 0, j) ^ corner(i, 1, j)
            count += corner(i, j, 0) ^ corner(i, j, 1)
    return count
