"""Rotates packed queries and keys by their positions, in Triton; eight heads a program."""

import triton
import triton.language as tl


@triton.jit
def rotate_heads(qk, positions, table, out, heads, HALF: tl.constexpr, HEADS: tl.constexpr):
    """Rotate some heads of one token; a row of the table holds the cosines, then the sines."""
    token = tl.program_id(0)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    lanes = tl.arange(0, HALF)
    row = tl.load(positions + token) * (2 * HALF)
    cosine = tl.load(table + row + lanes)[None, :]
    sine = tl.load(table + row + HALF + lanes)[None, :]
    inside = (head < heads)[:, None]
    at = (token * heads + head)[:, None] * (2 * HALF) + lanes[None, :]
    low = tl.load(qk + at, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(qk + at + HALF, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, (low * cosine - high * sine).to(tl.bfloat16), mask=inside)
    tl.store(out + at + HALF, (high * cosine + low * sine).to(tl.bfloat16), mask=inside)


def apply_rope(qk, positions, table, out):
    """Write the rotated heads; qk is (tokens, heads, 128), table (4096, 128)."""
    tokens, heads, dim = qk.shape
    grid = (tokens, triton.cdiv(heads, 8))
    rotate_heads[grid](qk, positions, table, out, heads, HALF=dim // 2, HEADS=8)
