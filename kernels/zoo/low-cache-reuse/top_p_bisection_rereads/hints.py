"""Bisects the weight below which top-p sampling drops tokens, with rows kept in L2."""

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
    largest = tl.full([BLOCK], float("-inf"), tl.float32)
    for first in range(0, vocabulary, BLOCK):
        inside = first + lanes < vocabulary
        logit = tl.load(row + first + lanes, inside, float("-inf"), eviction_policy="evict_last")
        largest = tl.maximum(largest, logit)
    top = tl.max(largest)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, vocabulary, BLOCK):
        inside = first + lanes < vocabulary
        logit = tl.load(row + first + lanes, inside, float("-inf"), eviction_policy="evict_last")
        total += tl.exp(logit - top)
    wanted = tl.sum(total) * top_p
    low = 0.0
    high = 2.0
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        mass = tl.zeros([BLOCK], tl.float32)
        for first in range(0, vocabulary, BLOCK):
            inside = first + lanes < vocabulary
            logit = tl.load(
                row + first + lanes, inside, float("-inf"), eviction_policy="evict_last"
            )
            weight = tl.exp(logit - top)
            mass += tl.where(weight >= middle, weight, 0.0)
        is_enough = tl.sum(mass) >= wanted
        low = tl.where(is_enough, middle, low)
        high = tl.where(is_enough, high, middle)
    tl.store(thresholds + tl.program_id(0), low)


def top_p_threshold(logits, top_p, thresholds):
    """Write the threshold of each row of logits (rows, vocabulary), float32."""
    rows, vocabulary = logits.shape
    find_thresholds[(rows,)](
        logits, thresholds, vocabulary, top_p, STEPS=STEPS, BLOCK=4096, num_warps=8
    )
