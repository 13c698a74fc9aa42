# kernel: query_key_scores_fp32_dot/before/cuda
"""Dot products of single-precision queries and keys, in Triton, close to single precision."""

import triton
import triton.language as tl


@triton.jit
def compare_tiles(
    queries, keys, scores, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        query_in = (rows[:, None] < m) & (inner[None, :] < k)
        key_in = (columns[:, None] < n) & (inner[None, :] < k)
        query = tl.load(queries + rows[:, None] * k + inner[None, :], mask=query_in, other=0.0)
        key = tl.load(keys + columns[:, None] * k + inner[None, :], mask=key_in, other=0.0)
        total = tl.dot(query, key.T, total, input_precision="ieee")
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(scores + rows[:, None] * n + columns[None, :], total, mask=inside)


def compare(queries, keys, scores):
    """Write the dot product of each query with each key; both are single precision."""
    (m, k), n = queries.shape, keys.shape[0]
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 64))
    compare_tiles[grid](queries, keys, scores, m, n, k, M=128, N=64, K=32, num_warps=8)
