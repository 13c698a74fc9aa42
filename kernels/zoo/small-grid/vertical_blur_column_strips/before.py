# kernel: vertical_blur_column_strips/before/cuda
# computes: a blur along the columns of images
"""Blur along the columns of images."""

import triton
import triton.language as tl


@triton.jit
def blur_strip(image, weights, blurred, h, w, TAPS: tl.constexpr, COLUMNS: tl.constexpr):
    """Blur a strip of COLUMNS columns of one image."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < w
    base = tl.program_id(1).to(tl.int64) * h * w
    for y in range(h):
        total = tl.zeros([COLUMNS], tl.float32)
        for k in tl.static_range(TAPS):
            row = y + k - TAPS // 2
            value = tl.load(
                image + base + row * w + columns, mask=inside & (row >= 0) & (row < h), other=0.0
            )
            total += tl.load(weights + k) * value
        tl.store(blurred + base + y * w + columns, total, mask=inside)


def blur_columns(image, weights, blurred):
    """Write the images, filtered along their columns, to blurred."""
    images, h, w = image.shape
    grid = (triton.cdiv(w, 128), images)
    blur_strip[grid](image, weights, blurred, h, w, TAPS=weights.numel(), COLUMNS=128)
