"""Reference of implicit_diffusion_columns."""

import torch


def implicit_diffusion(field: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
    """Solve (1 + 2 r) x[l] - r (x[l - 1] + x[l + 1]) = field[l] for each column (64, n)."""
    levels = field.shape[0]
    side, centre = -rate, 1.0 + 2.0 * rate
    ratio, value = [side / centre], [field[0] / centre]
    for level in range(1, levels):
        scale = 1.0 / (centre - side * ratio[-1])
        ratio.append(side * scale)
        value.append((field[level] - side * value[-1]) * scale)
    rows = [value[-1]]
    for level in range(levels - 2, -1, -1):
        rows.append(value[level] - ratio[level] * rows[-1])
    return torch.stack(rows[::-1])
