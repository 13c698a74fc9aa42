"""Reference of median_5x5_int16."""

import torch


def median_filter(image: torch.Tensor) -> torch.Tensor:
    """Return the median of the 5 x 5 neighbours, int16 (h, w); two border pixels are copied."""
    out = image.clone()
    if min(image.shape) >= 5:
        height, width = image.shape
        for top in range(0, height - 4, 256):  # in strips, since the windows take 25 times as much
            strip = image[top : min(top + 260, height)]
            windows = strip.unfold(0, 5, 1).unfold(1, 5, 1).flatten(2)
            middle = windows.median(dim=2).values
            out[top + 2 : top + 2 + middle.shape[0], 2 : width - 2] = middle
    return out
