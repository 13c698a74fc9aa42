"""Exponential moving average in fp32 of bf16 weights, in Triton."""

import triton
import triton.language as tl


@triton.jit
def update_block(weights, average, count, decay, BLOCK: tl.constexpr):
    """Update the average of BLOCK weights in place."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    weight = tl.load(weights + place, mask=inside).to(tl.float32)
    mean = tl.load(average + place, mask=inside)
    mean = mean * decay + weight * (1.0 - decay)
    tl.store(average + place, mean, mask=inside)


def update_average(weights, _old, decay, average):
    """Move average, which starts as the old one, towards weights."""
    count = weights.numel()
    update_block[(triton.cdiv(count, 1024),)](weights, average, count, decay, BLOCK=1024)
