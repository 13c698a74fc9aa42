"""Attention of one query over int8 keys and values with a scale for each token, by exp2."""

import triton
import triton.language as tl


@triton.jit
def attend(
    query,
    keys,
    key_scales,
    values,
    value_scales,
    out,
    context,
    factor,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Attend with the query of one head over its whole context."""
    head = tl.program_id(0)
    lanes = tl.arange(0, DIM)
    own = tl.load(query + head * DIM + lanes).to(tl.float32) * factor
    start = head.to(tl.int64) * context
    top = float("-inf")
    total = 0.0
    sums = tl.zeros([DIM], tl.float32)
    for first in range(0, context, BLOCK):
        token = first + tl.arange(0, BLOCK)
        inside = token < context
        at = (start + token)[:, None] * DIM + lanes[None, :]
        key = tl.load(keys + at, mask=inside[:, None], other=0).to(tl.float32)
        key_scale = tl.load(key_scales + start + token, mask=inside, other=0.0)
        score = tl.sum(key * own[None, :], axis=1) * key_scale
        score = tl.where(inside, score, float("-inf"))
        higher = tl.maximum(top, tl.max(score))
        shrink = tl.exp2(top - higher)
        weight = tl.exp2(score - higher)
        total = total * shrink + tl.sum(weight)
        value = tl.load(values + at, mask=inside[:, None], other=0).to(tl.float32)
        value_scale = tl.load(value_scales + start + token, mask=inside, other=0.0)
        sums = sums * shrink + tl.sum(value * (weight * value_scale)[:, None], axis=0)
        top = higher
    tl.store(out + head * DIM + lanes, (sums / total).to(tl.float16))


def decode_attention(query, keys, key_scales, values, value_scales, out):
    """Write out (heads, 128); keys and values are (heads, context, 128), int8."""
    heads, context, dim = keys.shape
    factor = 1.4426950408889634 * dim**-0.5
    attend[(heads,)](
        query, keys, key_scales, values, value_scales, out, context, factor, DIM=dim, BLOCK=64
    )
