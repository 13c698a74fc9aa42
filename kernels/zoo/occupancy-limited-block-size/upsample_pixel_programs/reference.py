"""Reference of upsample_pixel_programs."""

import torch


def find_places(size: int, count: int, like: torch.Tensor) -> list[torch.Tensor]:
    """Return the two source places of each output place, and the weight of the second one."""
    step = size / count
    centres = torch.arange(count, device=like.device, dtype=like.dtype) + 0.5
    place = (centres * step - 0.5).clamp(min=0)
    first = place.long().clamp(max=size - 1)
    return [first, (first + 1).clamp(max=size - 1), place - first]


def resize(features: torch.Tensor, out_h: int, out_w: int) -> torch.Tensor:
    """Return the features at the centres of the output's pixels (out_h, out_w, 64)."""
    top, bottom, dy = find_places(features.shape[0], out_h, features)
    left, right, dx = find_places(features.shape[1], out_w, features)
    dy, dx = dy[:, None, None], dx[None, :, None]
    rows = features[top] * (1 - dy) + features[bottom] * dy
    return rows[:, left] * (1 - dx) + rows[:, right] * dx
