"""Reference of diffuse_past_l1."""

import torch


def diffuse(field: torch.Tensor) -> torch.Tensor:
    """Return a quarter of each interior cell plus weighted neighbours, of padded cells."""
    h, w = field.shape[0] - 2, field.shape[1] - 2
    out = torch.zeros(h, w, dtype=field.dtype, device=field.device)
    for dy, outer in enumerate((1, 2, 1)):
        for dx, inner in enumerate((1, 2, 1)):
            out += field[dy : dy + h, dx : dx + w] * (outer * inner / 16)
    return out
