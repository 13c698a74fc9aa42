"""Adds a residual and normalises rows by their root mean square, in four stages."""

import triton
import triton.language as tl


@triton.jit
def add_and_normalise(x, residual, weight, total, y, columns, eps, BLOCK: tl.constexpr):
    """Normalise one row, block by block."""
    start = tl.program_id(0).to(tl.int64) * columns
    squares = tl.zeros([BLOCK], tl.float32)
    for first in tl.range(0, columns, BLOCK, num_stages=4):
        at = first + tl.arange(0, BLOCK)
        inside = at < columns
        left = tl.load(x + start + at, mask=inside, other=0.0).to(tl.float32)
        right = tl.load(residual + start + at, mask=inside, other=0.0).to(tl.float32)
        value = left + right
        tl.store(total + start + at, value.to(tl.bfloat16), mask=inside)
        squares += value * value
    scale = tl.rsqrt(tl.sum(squares) / columns + eps)
    for first in tl.range(0, columns, BLOCK, num_stages=4):
        at = first + tl.arange(0, BLOCK)
        inside = at < columns
        left = tl.load(x + start + at, mask=inside, other=0.0).to(tl.float32)
        right = tl.load(residual + start + at, mask=inside, other=0.0).to(tl.float32)
        gain = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + start + at, ((left + right) * scale * gain).to(tl.bfloat16), mask=inside)


def add_rmsnorm(x, residual, weight, total, y):
    """Write x + residual to total, and its normalised rows to y; all bfloat16."""
    rows, columns = x.shape
    add_and_normalise[(rows,)](x, residual, weight, total, y, columns, 1e-6, BLOCK=1024)
