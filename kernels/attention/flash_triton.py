# kernel: attention_bf16, attention_fp16/flash-triton/cuda
# shapes: q (bh, seq, dim), k (bh, seq, dim), v (bh, seq, dim), o (bh, seq, dim); float16, bfloat16
# launch: one program per head and tile of 64 or 128 queries, 4 or 8 warps
# shared: by Triton: num_stages tiles of k and v
# work: algorithm 8 B per element of q and 4 dim FLOP per score; one exp2 per score
# roof: tensor cores at dim 128; at dim 64 the exponentials take as long as the products
# tolerance: by the reference's own error in the element type, see kernel.yaml
# measured: 1.09 ms at b4-h16-s4096-d128, session 2026-11-26-attention-half
"""Attention of half-precision arrays in Triton: tiles of keys, online softmax in fp32.

Scores are powers of two: log2(e) and 1/sqrt(dim) are folded into one factor. Tiles that need no
mask come first, then those that cross the diagonal or the end of the keys. Rows that do not exist
are read as zeros and not written, so that no sequence length is special.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

CONFIGS = {
    64: {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3},
    128: {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3},
}
"""Query rows of a program, keys of a tile, warps and tiles in flight, by head dimension."""


@triton.jit
def walk_keys(
    q, k, v, total, sums, most, first, last, rows, seq, scale,
    DIM: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Add the keys from first to last, in tiles; k and v are of the head."""
    columns = tl.arange(0, DIM)
    for start in tl.range(first, last, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        at = keys[:, None] * DIM + columns[None, :]
        if MASKED:
            inside = keys[:, None] < seq
            key = tl.load(k + at, mask=inside, other=0.0)
            value = tl.load(v + at, mask=inside, other=0.0)
        else:
            key = tl.load(k + at)
            value = tl.load(v + at)
        scores = tl.dot(q, key.T)
        if MASKED:
            seen = keys[None, :] < seq
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None])
            scores = tl.where(seen, scores, -float("inf"))
        new = tl.maximum(most, tl.max(scores, axis=1) * scale)
        weights = tl.exp2(scores * scale - new[:, None])
        shrink = tl.exp2(most - new)
        total = total * shrink + tl.sum(weights, axis=1)
        sums = tl.dot(weights.to(v.dtype.element_ty), value, sums * shrink[:, None])
        most = new
    return total, sums, most


@triton.jit
def attention_kernel(
    q, k, v, o, seq, scale,
    DIM: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attend from BLOCK_M rows of one head; q, k, v, o are (bh, seq, DIM) and contiguous."""
    blocks = tl.cdiv(seq, BLOCK_M)
    block = tl.program_id(0) % blocks
    if CAUSAL:  # the longest rows first
        block = blocks - 1 - block
    head = (tl.program_id(0) // blocks).to(tl.int64) * seq * DIM
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    at = head + rows[:, None] * DIM + tl.arange(0, DIM)[None, :]
    queries = tl.load(q + at, mask=rows[:, None] < seq, other=0.0)

    total = tl.zeros([BLOCK_M], tl.float32)
    most = tl.full([BLOCK_M], -float("inf"), tl.float32)
    sums = tl.zeros([BLOCK_M, DIM], tl.float32)
    last = seq
    whole = seq // BLOCK_N * BLOCK_N
    if CAUSAL:
        last = tl.minimum(seq, (block + 1) * BLOCK_M)
        whole = block * BLOCK_M // BLOCK_N * BLOCK_N
    total, sums, most = walk_keys(
        queries, k + head, v + head, total, sums, most, 0, whole, rows, seq, scale,
        DIM, CAUSAL, False, BLOCK_N,
    )  # fmt: skip
    if whole < last:
        total, sums, most = walk_keys(
            queries, k + head, v + head, total, sums, most, whole, last, rows, seq, scale,
            DIM, CAUSAL, True, BLOCK_N,
        )  # fmt: skip
    result = (sums / total[:, None]).to(o.dtype.element_ty)
    tl.store(o + at, result, mask=rows[:, None] < seq)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: int, o: torch.Tensor
) -> None:
    """Write softmax(q k^T / sqrt(dim)) v to o; causal 1: row i sees the keys up to i.

    Raises:
        ValueError: The head dimension is neither 64 nor 128.
    """
    bh, seq, dim = q.shape
    if dim not in CONFIGS:
        raise ValueError(f"head dimension {dim}: 64 and 128 are supported")
    if q.numel() == 0:
        return
    config = CONFIGS[dim]
    attention_kernel[(bh * triton.cdiv(seq, config["BLOCK_M"]),)](
        q, k, v, o, seq, math.log2(math.e) / math.sqrt(dim), DIM=dim, CAUSAL=bool(causal), **config
    )
