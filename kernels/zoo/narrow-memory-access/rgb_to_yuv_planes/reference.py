"""Reference of rgb_to_yuv_planes."""

import torch


def rgb_to_yuv(rgb: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the planes Y, U and V of BT.601 in fixed point with 8 fractional bits, uint8."""
    r, g, b = rgb.to(torch.int32).unbind(dim=-1)
    y = (77 * r + 150 * g + 29 * b + 128) >> 8
    u = ((-43 * r - 85 * g + 128 * b + 128) >> 8) + 128
    v = ((128 * r - 107 * g - 21 * b + 128) >> 8) + 128
    planes = (plane.clamp(max=255).to(torch.uint8) for plane in (y, u, v))
    return tuple(planes)
