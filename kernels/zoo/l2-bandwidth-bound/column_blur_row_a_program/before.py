# kernel: column_blur_row_a_program/before/cuda
"""A filter of 17 weights along the columns of a float image, in Triton."""

import triton
import triton.language as tl

RADIUS = 8


@triton.jit
def blur_columns(image, weights, blurred, height, width, RADIUS: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inside = columns < width
    total = tl.zeros([N], tl.float32)
    for tap in range(2 * RADIUS + 1):
        source = tl.minimum(tl.maximum(row + tap - RADIUS, 0), height - 1)
        values = tl.load(image + source * width + columns, mask=inside, other=0.0)
        total += tl.load(weights + tap) * values
    tl.store(blurred + row * width + columns, total, mask=inside)


def blur(image, weights, blurred):
    """Write the image filtered along its columns with 17 weights; the border is repeated."""
    height, width = image.shape
    grid = (height, triton.cdiv(width, 512))
    blur_columns[grid](image, weights, blurred, height, width, RADIUS=RADIUS, N=512, num_warps=4)
