"""Rotates packed queries and keys by their positions, in Triton."""

import triton
import triton.language as tl


@triton.jit
def rotate_heads(qk, positions, table, out, heads, HALF: tl.constexpr):
    """Rotate one head of one token; a row of the table holds the cosines, then the sines."""
    token = tl.program_id(0)
    head = tl.program_id(1)
    lanes = tl.arange(0, HALF)
    row = tl.load(positions + token) * (2 * HALF)
    cosine = tl.load(table + row + lanes)
    sine = tl.load(table + row + HALF + lanes)
    start = (token * heads + head) * (2 * HALF)
    low = tl.load(qk + start + lanes).to(tl.float32)
    high = tl.load(qk + start + HALF + lanes).to(tl.float32)
    tl.store(out + start + lanes, (low * cosine - high * sine).to(tl.bfloat16))
    tl.store(out + start + HALF + lanes, (high * cosine + low * sine).to(tl.bfloat16))


def apply_rope(qk, positions, table, out):
    """Write the rotated heads; qk is (tokens, heads, 128), table (4096, 128)."""
    tokens, heads, dim = qk.shape
    rotate_heads[(tokens, heads)](qk, positions, table, out, heads, HALF=dim // 2)
