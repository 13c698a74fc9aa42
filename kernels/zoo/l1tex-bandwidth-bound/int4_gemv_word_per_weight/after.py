"""Matrix-vector product with weights of four bits and group scales, in Triton; words read once."""

import triton
import triton.language as tl


@triton.jit
def repeat_eight_times(values):
    """Return each value of the last dimension eight times in a row."""
    values = tl.interleave(values, values)
    values = tl.interleave(values, values)
    return tl.interleave(values, values)


@triton.jit
def multiply_rows(
    packed,
    scales,
    x,
    y,
    rows,
    columns,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Multiply some rows; a word holds eight weights, the lowest bits first."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    words = columns // 8
    groups = columns // GROUP
    inside_rows = (row < rows)[:, None]
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for first in range(0, columns, BLOCK):
        column = first + tl.arange(0, BLOCK)
        index = first // 8 + tl.arange(0, BLOCK // 8)
        inside = inside_rows & (index < words)[None, :]
        word = tl.load(packed + row[:, None] * words + index[None, :], mask=inside, other=0)
        level = ((repeat_eight_times(word) >> ((column % 8) * 4)[None, :]) & 15) - 8
        group = row[:, None] * groups + (index * 8 // GROUP)[None, :]
        scale = tl.load(scales + group, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(x + column, mask=column < columns, other=0.0).to(tl.float32)
        total += level.to(tl.float32) * repeat_eight_times(scale) * value[None, :]
    tl.store(y + row, tl.sum(total, axis=1).to(tl.float16), mask=row < rows)


def gemv_int4(packed, scales, x, y):
    """Write y; packed is (rows, groups, 16) int32, scales (rows, groups), x (groups, 128)."""
    rows, columns = scales.shape[0], x.numel()
    grid = (triton.cdiv(rows, 8),)
    multiply_rows[grid](packed, scales, x, y, rows, columns, GROUP=128, ROWS=8, BLOCK=256)
