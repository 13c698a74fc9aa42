"""Quantises groups of 128 values of each token to fp8 e4m3, by four warps each."""

import triton
import triton.language as tl

LARGEST = 448.0


@triton.jit
def quantise_group(x, out, scales, limit, GROUP: tl.constexpr):
    """Quantise one group by its largest magnitude."""
    group = tl.program_id(0).to(tl.int64)
    at = group * GROUP + tl.arange(0, GROUP)
    value = tl.load(x + at).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(value)), 1e-10) / limit
    tl.store(out + at, (value / scale).to(tl.float8e4nv))
    tl.store(scales + group, scale)


def quantise(x, out, scales):
    """Write fp8 values and one scale for each group; x is (tokens, groups, 128), bfloat16."""
    tokens, groups, size = x.shape
    quantise_group[(tokens * groups,)](x, out, scales, LARGEST, GROUP=size, num_warps=4)
