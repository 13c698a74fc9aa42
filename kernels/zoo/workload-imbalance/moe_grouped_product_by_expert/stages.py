"""Rows sorted by expert times the weights of their expert, bf16, in 4 stages."""

import triton
import triton.language as tl


@triton.jit
def multiply_expert(
    x,
    weights,
    starts,
    out,
    DEPTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    """Compute N columns of the rows of one expert."""
    expert = tl.program_id(1)
    first = tl.load(starts + expert)
    last = tl.load(starts + expert + 1)
    column = tl.program_id(0) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    matrix = weights + expert.to(tl.int64) * DEPTH * COLUMNS
    matrix_at = matrix + inner[:, None] * COLUMNS + column[None, :]
    for start in range(first, last, M):
        row = start + tl.arange(0, M)
        inside = (row < last)[:, None]
        row_at = x + row[:, None] * DEPTH + inner[None, :]
        total = tl.zeros([M, N], tl.float32)
        for step in range(0, DEPTH, K):
            left = tl.load(row_at + step, mask=inside, other=0.0)
            right = tl.load(matrix_at + step * COLUMNS)
            total = tl.dot(left, right, total)
        at = row[:, None] * COLUMNS + column[None, :]
        tl.store(out + at, total.to(out.dtype.element_ty), mask=inside)


def multiply_groups(x, weights, starts, out):
    """Write the product of each row of x and its expert's weights; starts bounds the experts."""
    experts, depth, columns = weights.shape
    grid = (columns // 128, experts)
    multiply_expert[grid](
        x,
        weights,
        starts,
        out,
        DEPTH=depth,
        COLUMNS=columns,
        M=128,
        N=128,
        K=64,
        num_warps=8,
        num_stages=4,
    )
