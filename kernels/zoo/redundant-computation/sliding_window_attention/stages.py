"""Causal attention in which each query sees the last WINDOW keys, bf16, in 4 stages."""

import triton
import triton.language as tl


@triton.jit
def attend_rows(
    queries,
    keys,
    values,
    out,
    length,
    scale,
    WINDOW: tl.constexpr,
    DIM: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
):
    """Attend with M queries of one head."""
    tile = tl.program_id(0)
    origin = tl.program_id(1).to(tl.int64) * length * DIM
    row = tile * M + tl.arange(0, M)
    lanes = tl.arange(0, N)
    axis = tl.arange(0, DIM)
    rows_at = origin + row[:, None] * DIM + axis[None, :]
    rows_in = row[:, None] < length
    query = tl.load(queries + rows_at, mask=rows_in, other=0.0)
    top = tl.full([M], -1.0e30, tl.float32)
    weights = tl.zeros([M], tl.float32)
    total = tl.zeros([M, DIM], tl.float32)

    for start in range(0, (tile + 1) * M, N):
        column = start + lanes
        columns_in = column[:, None] < length
        columns_at = origin + column[:, None] * DIM + axis[None, :]
        key = tl.load(keys + columns_at, mask=columns_in, other=0.0)
        value = tl.load(values + columns_at, mask=columns_in, other=0.0)
        score = tl.dot(query, tl.trans(key)) * scale
        distance = row[:, None] - column[None, :]
        score = tl.where((distance >= 0) & (distance < WINDOW), score, -1.0e30)
        higher = tl.maximum(top, tl.max(score, axis=1))
        shrink = tl.exp(top - higher)
        weight = tl.exp(score - higher[:, None])
        weights = weights * shrink + tl.sum(weight, axis=1)
        total = total * shrink[:, None]
        total = tl.dot(weight.to(value.dtype), value, total)
        top = higher

    total = total / weights[:, None]
    tl.store(out + rows_at, total.to(out.dtype.element_ty), mask=rows_in)


def attend(queries, keys, values, out):
    """Write the attention of (batch, heads, length, 64); a query sees 1024 keys."""
    batch, heads, length, dim = queries.shape
    attend_rows[(triton.cdiv(length, 128), batch * heads)](
        queries,
        keys,
        values,
        out,
        length,
        dim**-0.5,
        WINDOW=1024,
        DIM=dim,
        M=128,
        N=64,
        num_warps=4,
        num_stages=4,
    )
