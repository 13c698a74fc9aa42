"""Adds a residual and normalises rows by their root mean square, with whole rows in registers."""

import triton
import triton.language as tl


@triton.jit
def add_and_normalise(x, residual, weight, total, y, columns, eps, BLOCK: tl.constexpr):
    """Normalise one row of at most BLOCK columns."""
    start = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    left = tl.load(x + start + at, mask=inside, other=0.0).to(tl.float32)
    right = tl.load(residual + start + at, mask=inside, other=0.0).to(tl.float32)
    value = left + right
    tl.store(total + start + at, value.to(tl.bfloat16), mask=inside)
    scale = tl.rsqrt(tl.sum(value * value) / columns + eps)
    gain = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + start + at, (value * scale * gain).to(tl.bfloat16), mask=inside)


def add_rmsnorm(x, residual, weight, total, y):
    """Write x + residual to total, and its normalised rows to y; all bfloat16."""
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    warps = min(max(block // 1024, 1), 16)
    add_and_normalise[(rows,)](
        x, residual, weight, total, y, columns, 1e-6, BLOCK=block, num_warps=warps
    )
