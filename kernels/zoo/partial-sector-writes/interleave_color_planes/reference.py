"""Reference of interleave_color_planes."""

import torch


def interleave(planes: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """Return the planes times their gains with the planes innermost, (n, 4)."""
    return (planes * gain[:, None]).t().contiguous()
