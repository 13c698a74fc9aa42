# kernel: projection_residual_four_warps/before/cuda
"""Half-precision product of matrices plus a residual, tiles of 128 x 256, in Triton."""

import triton
import triton.language as tl


@triton.jit
def multiply_tiles(a, b, residual, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        left_in = (rows[:, None] < m) & (inner[None, :] < k)
        right_in = (inner[:, None] < k) & (columns[None, :] < n)
        left = tl.load(a + rows[:, None] * k + inner[None, :], mask=left_in, other=0.0)
        right = tl.load(b + inner[:, None] * n + columns[None, :], mask=right_in, other=0.0)
        total = tl.dot(left, right, total)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    at = rows[:, None] * n + columns[None, :]
    total += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(c + at, total.to(c.dtype.element_ty), mask=inside)


def project(a, b, residual, c):
    """Write a b + residual into c; a is (m, k), b is (k, n), half precision."""
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 256))
    multiply_tiles[grid](a, b, residual, c, m, n, k, M=128, N=256, K=64, num_warps=4, num_stages=3)
