"""Rows sorted by expert times the weights of their expert, bf16; a program for each tile."""

import triton
import triton.language as tl


@triton.jit
def multiply_tile(
    x,
    weights,
    starts,
    out,
    experts,
    EXPERTS: tl.constexpr,
    DEPTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    """Compute N columns of up to M rows of one expert, which is found from the tile's number."""
    tile = tl.program_id(1)
    each = tl.arange(0, EXPERTS)
    low = tl.load(starts + each, mask=each < experts, other=0)
    high = tl.load(starts + each + 1, mask=each < experts, other=0)
    tiles = (high - low + M - 1) // M
    ends = tl.cumsum(tiles, axis=0)
    expert = tl.sum((ends <= tile).to(tl.int32), axis=0)
    if expert < experts:
        here = each == expert
        start = tl.sum(tl.where(here, low + (tile - ends + tiles) * M, 0), axis=0)
        last = tl.sum(tl.where(here, high, 0), axis=0)
        column = tl.program_id(0) * N + tl.arange(0, N)
        inner = tl.arange(0, K)
        matrix = weights + expert.to(tl.int64) * DEPTH * COLUMNS
        matrix_at = matrix + inner[:, None] * COLUMNS + column[None, :]
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
    grid = (columns // 128, x.shape[0] // 128 + experts)
    multiply_tile[grid](
        x,
        weights,
        starts,
        out,
        experts,
        EXPERTS=max(16, triton.next_power_of_2(experts)),
        DEPTH=depth,
        COLUMNS=columns,
        M=128,
        N=128,
        K=64,
        num_warps=8,
        num_stages=3,
    )
