# kernel: bilateral_7x7_wide_tile/after/cuda
# change: 16 warps for each tile of 128 by 128 pixels instead of 4
"""Bilateral filter of a grey image."""

import math

import triton
import triton.language as tl

NEARNESS = math.log2(math.e) / (2 * 2.0**2)
LIKENESS = math.log2(math.e) / (2 * 0.2**2)


@triton.jit
def smooth_tile(
    image, smooth, h, w, nearness, likeness,
    RADIUS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Smooth a tile of ROWS by COLUMNS pixels."""
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows[:, None] < h) & (columns[None, :] < w)
    at = rows[:, None] * w + columns[None, :]
    centre = tl.load(image + at, mask=inside, other=0.0)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    norm = tl.zeros([ROWS, COLUMNS], tl.float32)
    for dy in range(-RADIUS, RADIUS + 1):
        y = tl.minimum(tl.maximum(rows + dy, 0), h - 1)
        for dx in range(-RADIUS, RADIUS + 1):
            x = tl.minimum(tl.maximum(columns + dx, 0), w - 1)
            tap = tl.load(image + y[:, None] * w + x[None, :])
            difference = tap - centre
            fall = difference * difference * likeness + (dx * dx + dy * dy) * nearness
            weight = tl.exp2(-fall)
            total += weight * tap
            norm += weight
    tl.store(smooth + at, total / norm, mask=inside)


def smooth_image(image, smooth):
    """Write the filtered image to smooth."""
    h, w = image.shape
    grid = (triton.cdiv(w, 128), triton.cdiv(h, 128))
    smooth_tile[grid](
        image, smooth, h, w, NEARNESS, LIKENESS, RADIUS=3, ROWS=128, COLUMNS=128, num_warps=16
    )
