"""Reference of dilate_7x7_swizzled."""

import torch


def dilate(image: torch.Tensor) -> torch.Tensor:
    """Return the maximum of 7 x 7 pixels of the padded image."""
    h, w = image.shape[0] - 6, image.shape[1] - 6
    rows = image[:, :w]
    for dx in range(1, 7):
        rows = torch.maximum(rows, image[:, dx : dx + w])
    out = rows[:h]
    for dy in range(1, 7):
        out = torch.maximum(out, rows[dy : dy + h])
    return out
