# kernel: linear_silu_one_stage/grouped-tiles/cuda
# change: programs run in groups of eight rows of tiles
"""Half-precision linear layer with bias and SiLU, in Triton."""

import triton
import triton.language as tl


@triton.jit
def multiply_tiles(a, b, bias, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    tiles_m, tiles_n = tl.cdiv(m, M), tl.cdiv(n, N)
    group = tl.program_id(0) // (8 * tiles_n)
    within = tl.program_id(0) % (8 * tiles_n)
    height = tl.minimum(tiles_m - 8 * group, 8)
    rows = (8 * group + within % height) * M + tl.arange(0, M)
    columns = within // height * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    left_at = a + rows[:, None] * k + inner[None, :]
    right_at = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, k, K):
        left_in = (rows[:, None] < m) & (start + inner[None, :] < k)
        right_in = (start + inner[:, None] < k) & (columns[None, :] < n)
        left = tl.load(left_at, mask=left_in, other=0.0)
        right = tl.load(right_at, mask=right_in, other=0.0)
        total = tl.dot(left, right, total)
        left_at += K
        right_at += K * n
    total += tl.load(bias + columns, mask=columns < n, other=0.0).to(tl.float32)[None, :]
    total = total * tl.sigmoid(total)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    at = rows[:, None] * n + columns[None, :]
    tl.store(c + at, total.to(c.dtype.element_ty), mask=inside)


def linear_silu(a, b, bias, c):
    """Write silu(a b + bias) into c; a is (m, k), b is (k, n), half precision."""
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, 128) * triton.cdiv(n, 128),)
    multiply_tiles[grid](a, b, bias, c, m, n, k, M=128, N=128, K=64, num_warps=8, num_stages=1)
