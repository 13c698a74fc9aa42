"""Bisects the weight below which top-p sampling drops tokens, in Triton; one load."""

import triton
import triton.language as tl

STEPS = 25


@triton.jit
def find_thresholds(
    logits, thresholds, vocabulary, top_p, STEPS: tl.constexpr, BLOCK: tl.constexpr
):
    """Bisect the threshold of one row; weights are exp(logit - largest logit)."""
    row = logits + tl.program_id(0).to(tl.int64) * vocabulary
    lanes = tl.arange(0, BLOCK)
    weight = tl.load(row + lanes, lanes < vocabulary, other=float("-inf"))
    weight = tl.exp(weight - tl.max(weight))
    wanted = tl.sum(weight) * top_p
    low = 0.0
    high = 2.0
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        is_enough = tl.sum(tl.where(weight >= middle, weight, 0.0)) >= wanted
        low = tl.where(is_enough, middle, low)
        high = tl.where(is_enough, high, middle)
    tl.store(thresholds + tl.program_id(0), low)


def top_p_threshold(logits, top_p, thresholds):
    """Write the threshold of each row of logits (rows, vocabulary), float32."""
    rows, vocabulary = logits.shape
    block = triton.next_power_of_2(vocabulary)
    warps = min(max(block // 1024, 1), 32)
    find_thresholds[(rows,)](
        logits, thresholds, vocabulary, top_p, STEPS=STEPS, BLOCK=block, num_warps=warps
    )
