# kernel: splat_tiles_pixel_a_thread/before/cuda
"""Tiles of 16 x 16 pixels blended from lists of soft ellipses, front to back, in Triton."""

import triton
import triton.language as tl


@triton.jit
def blend_tiles(splats, lists, image, depth, EDGE: tl.constexpr):
    tile = tl.program_id(0)
    pixels = tl.arange(0, EDGE * EDGE)
    x = ((pixels % EDGE) + 0.5) / EDGE
    y = ((pixels // EDGE) + 0.5) / EDGE
    passed = tl.full([EDGE * EDGE], 1.0, tl.float32)
    red = tl.zeros([EDGE * EDGE], tl.float32)
    green = tl.zeros([EDGE * EDGE], tl.float32)
    blue = tl.zeros([EDGE * EDGE], tl.float32)
    for k in range(depth):
        splat = splats + 9 * tl.load(lists + tile * depth + k)
        dx = x - tl.load(splat)
        dy = y - tl.load(splat + 1)
        power = tl.load(splat + 2) * dx * dx + tl.load(splat + 3) * dx * dy
        power += tl.load(splat + 4) * dy * dy
        opacity = tl.maximum(0.2 * tl.load(splat + 5), 0.0)
        alpha = tl.minimum(opacity * tl.exp(-8.0 * tl.maximum(power, 0.0)), 0.99)
        weight = alpha * passed
        red += weight * tl.load(splat + 6)
        green += weight * tl.load(splat + 7)
        blue += weight * tl.load(splat + 8)
        passed -= weight
    to = image + (tile * EDGE * EDGE + pixels) * 3
    tl.store(to, red)
    tl.store(to + 1, green)
    tl.store(to + 2, blue)


def blend(splats, lists, image):
    """Write the pixels of each tile, blended from its list of splats, front to back."""
    tiles, depth = lists.shape
    blend_tiles[(tiles,)](splats, lists, image, depth, EDGE=16, num_warps=8)
