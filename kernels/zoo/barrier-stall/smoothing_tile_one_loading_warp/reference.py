"""Reference of smoothing_tile_one_loading_warp."""

import torch


def smooth(x: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """Return the sum of taps[k] * x[i + k - 2] (n)."""
    padded = torch.nn.functional.pad(x, (2, 2))
    return sum(taps[k] * padded[k : k + x.numel()] for k in range(5))
