"""Quantises groups of 128 values of each token to fp8 e4m3, in Triton; 16 groups a program."""

import triton
import triton.language as tl

LARGEST = 448.0


@triton.jit
def quantise_group(x, out, scales, count, limit, GROUP: tl.constexpr, GROUPS: tl.constexpr):
    """Quantise some groups, each by its largest magnitude."""
    group = tl.program_id(0).to(tl.int64) * GROUPS + tl.arange(0, GROUPS)
    inside = group < count
    at = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    value = tl.load(x + at, mask=inside[:, None], other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(value), axis=1), 1e-10) / limit
    level = value / scale[:, None]
    tl.store(out + at, level.to(tl.float8e4nv), mask=inside[:, None])
    tl.store(scales + group, scale, mask=inside)


def quantise(x, out, scales):
    """Write fp8 values and one scale for each group; x is (tokens, groups, 128), bfloat16."""
    tokens, groups, size = x.shape
    count = tokens * groups
    grid = (triton.cdiv(count, 16),)
    quantise_group[grid](x, out, scales, count, LARGEST, GROUP=size, GROUPS=16, num_warps=4)
