"""Attention of one query over int8 keys and values with a scale for each token, in split parts."""

import torch
import triton
import triton.language as tl


@triton.jit
def attend(
    query,
    keys,
    key_scales,
    values,
    value_scales,
    partial_sums,
    partial_tops,
    partial_totals,
    context,
    part_size,
    factor,
    DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Attend with the query of one head over a part of its context."""
    head = tl.program_id(0)
    part = tl.program_id(1)
    lanes = tl.arange(0, DIM)
    own = tl.load(query + head * DIM + lanes).to(tl.float32) * factor
    start = head.to(tl.int64) * context
    last = tl.minimum((part + 1) * part_size, context)
    top = float("-inf")
    total = 0.0
    sums = tl.zeros([DIM], tl.float32)
    for first in range(part * part_size, last, BLOCK):
        token = first + tl.arange(0, BLOCK)
        inside = token < last
        at = (start + token)[:, None] * DIM + lanes[None, :]
        key = tl.load(keys + at, mask=inside[:, None], other=0).to(tl.float32)
        key_scale = tl.load(key_scales + start + token, mask=inside, other=0.0)
        score = tl.sum(key * own[None, :], axis=1) * key_scale
        score = tl.where(inside, score, float("-inf"))
        higher = tl.maximum(top, tl.max(score))
        shrink = tl.exp(top - higher)
        weight = tl.exp(score - higher)
        total = total * shrink + tl.sum(weight)
        value = tl.load(values + at, mask=inside[:, None], other=0).to(tl.float32)
        value_scale = tl.load(value_scales + start + token, mask=inside, other=0.0)
        sums = sums * shrink + tl.sum(value * (weight * value_scale)[:, None], axis=0)
        top = higher
    place = head * tl.num_programs(1) + part
    tl.store(partial_sums + place * DIM + lanes, sums)
    tl.store(partial_tops + place, top)
    tl.store(partial_totals + place, total)


@triton.jit
def combine(
    partial_sums, partial_tops, partial_totals, out, parts, DIM: tl.constexpr, PARTS: tl.constexpr
):
    """Combine the parts of one head."""
    head = tl.program_id(0)
    lanes = tl.arange(0, DIM)
    part = tl.arange(0, PARTS)
    place = head * parts + part
    inside = part < parts
    tops = tl.load(partial_tops + place, mask=inside, other=float("-inf"))
    shrink = tl.exp(tops - tl.max(tops))
    total = tl.sum(tl.load(partial_totals + place, mask=inside, other=0.0) * shrink)
    at = place[:, None] * DIM + lanes[None, :]
    sums = tl.load(partial_sums + at, mask=inside[:, None], other=0.0)
    tl.store(
        out + head * DIM + lanes, (tl.sum(sums * shrink[:, None], axis=0) / total).to(tl.float16)
    )


def decode_attention(query, keys, key_scales, values, value_scales, out):
    """Write out (heads, 128); keys and values are (heads, context, 128), int8."""
    heads, context, dim = keys.shape
    part_size = triton.cdiv(triton.cdiv(context, 32), 64) * 64
    parts = triton.cdiv(context, part_size)
    sums = torch.empty((heads, parts, dim), dtype=torch.float32, device=keys.device)
    tops = torch.empty((heads, parts), dtype=torch.float32, device=keys.device)
    totals = torch.empty_like(tops)
    attend[(heads, parts)](
        query,
        keys,
        key_scales,
        values,
        value_scales,
        sums,
        tops,
        totals,
        context,
        part_size,
        dim**-0.5,
        DIM=dim,
        BLOCK=64,
    )
    combine[(heads,)](sums, tops, totals, out, parts, DIM=dim, PARTS=32)
