# kernel: upsample_pixel_programs/before/cuda
# computes: a bilinear resize of a feature map with channels last
"""Bilinear resize of a feature map with channels last."""

import triton
import triton.language as tl


@triton.jit
def resize_pixel(features, resized, h, w, out_w, step_y, step_x, CHANNELS: tl.constexpr):
    """Compute all channels of one pixel."""
    column, row = tl.program_id(0), tl.program_id(1)
    y = tl.maximum((row + 0.5) * step_y - 0.5, 0.0)
    x = tl.maximum((column + 0.5) * step_x - 0.5, 0.0)
    top = tl.minimum(y.to(tl.int32), h - 1)
    left = tl.minimum(x.to(tl.int32), w - 1)
    bottom, right = tl.minimum(top + 1, h - 1), tl.minimum(left + 1, w - 1)
    dy, dx = y - top, x - left
    channels = tl.arange(0, CHANNELS)
    upper = tl.load(features + (top * w + left) * CHANNELS + channels) * (1 - dx)
    upper += tl.load(features + (top * w + right) * CHANNELS + channels) * dx
    lower = tl.load(features + (bottom * w + left) * CHANNELS + channels) * (1 - dx)
    lower += tl.load(features + (bottom * w + right) * CHANNELS + channels) * dx
    target = resized + (row.to(tl.int64) * out_w + column) * CHANNELS
    tl.store(target + channels, upper * (1 - dy) + lower * dy)


def resize(features, out_h, out_w, resized):
    """Write the resized features to resized."""
    h, w, channels = features.shape
    resize_pixel[(out_w, out_h)](
        features, resized, h, w, out_w, h / out_h, w / out_w, CHANNELS=channels, num_warps=1
    )
