"""Twice a vector, in Triton."""

import triton
import triton.language as tl


@triton.jit
def twice_kernel(x, y, n, BLOCK: tl.constexpr):
    """Double a block of x into y; both float32, of n elements."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def twice(x, y):
    """Write 2 x into y; both (n,) float32."""
    twice_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
