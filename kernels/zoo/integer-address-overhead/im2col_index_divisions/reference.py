"""Reference of im2col_index_divisions."""

import torch


def im2col(image: torch.Tensor) -> torch.Tensor:
    """Return the nine shifted copies of each plane, zero outside: (batch, channels, 9, h, w)."""
    height, width = image.shape[2:]
    padded = torch.nn.functional.pad(image, (1, 1, 1, 1))
    shifts = [padded[:, :, y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return torch.stack(shifts, 2)
