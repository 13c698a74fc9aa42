"""c = a b + bias in Triton, with one planted error by the constant BUG; 0 is right."""

import triton
import triton.language as tl

BUG = 0


@triton.jit
def affine_block(
    a, b, bias, c, m, n, k, BUG: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """Compute M by N elements; all arrays are contiguous."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros([M, N], tl.float32)
    last = k // K * K if BUG == 1 else k
    first = K if BUG == 2 else 0
    for start in range(first, last, K):
        inner = start + tl.arange(0, K)
        in_a = (rows[:, None] < m) & (inner[None, :] < k)
        in_b = (inner[:, None] < k) & (columns[None, :] < n)
        left = tl.load(a + rows[:, None] * k + inner[None, :], mask=in_a, other=0.0)
        if BUG == 3:
            right = tl.load(b + columns[None, :] * k + inner[:, None], mask=in_b, other=0.0)
        else:
            right = tl.load(b + inner[:, None] * n + columns[None, :], mask=in_b, other=0.0)
        total += tl.dot(left, right, input_precision="tf32" if BUG == 4 else "ieee")
    if BUG != 5:
        total += tl.load(bias + columns, mask=columns < n, other=0.0)[None, :]
    if BUG == 6:
        total = total * 0.5
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    if BUG == 7:
        inside = inside & (columns[None, :] // 8 * 8 + 8 <= n)
    width = n + 8 if BUG == 8 else n
    at = rows[:, None] * width + columns[None, :]
    tl.store(c + at, total, mask=inside & (at < m * n))


def affine(a, b, bias, c):
    """Write a b + bias into c; a is (m, k), b is (k, n), float32."""
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    affine_block[grid](a, b, bias, c, m, n, k, BUG=BUG, M=32, N=32, K=32)
