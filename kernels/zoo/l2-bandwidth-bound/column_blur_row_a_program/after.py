# kernel: column_blur_row_a_program/after/cuda
# change: a program filters a tile of 16 rows instead of a part of one row
"""A filter of 17 weights along the columns of a float image, in Triton."""

import triton
import triton.language as tl

RADIUS = 8


@triton.jit
def blur_columns(
    image, weights, blurred, height, width,
    RADIUS: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inside = (rows < height)[:, None] & (columns < width)[None, :]
    total = tl.zeros([M, N], tl.float32)
    for tap in range(2 * RADIUS + 1):
        source = tl.minimum(tl.maximum(rows + tap - RADIUS, 0), height - 1)
        at = source[:, None] * width + columns[None, :]
        values = tl.load(image + at, mask=inside, other=0.0)
        total += tl.load(weights + tap) * values
    tl.store(blurred + rows[:, None] * width + columns[None, :], total, mask=inside)


def blur(image, weights, blurred):
    """Write the image filtered along its columns with 17 weights; the border is repeated."""
    height, width = image.shape
    grid = (triton.cdiv(height, 16), triton.cdiv(width, 128))
    blur_columns[grid](
        image, weights, blurred, height, width, RADIUS=RADIUS, M=16, N=128, num_warps=4
    )
