"""Verifies drafted tokens and recovers one for the first rejected, in Triton, with hints."""

import triton
import triton.language as tl


@triton.jit
def verify_step(
    target,
    draft,
    drafted,
    coins,
    noise,
    bonus,
    accepted,
    tokens,
    steps,
    vocabulary,
    STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Handle one drafted step of one sequence; only that of the first rejection writes."""
    sequence = tl.program_id(0)
    step = tl.program_id(1)
    every = tl.arange(0, STEPS)
    is_step = every < steps
    at = sequence * steps + every
    token = tl.load(drafted + at, mask=is_step, other=0)
    chance = tl.load(target + at.to(tl.int64) * vocabulary + token, mask=is_step, other=1.0)
    guess = tl.load(draft + at.to(tl.int64) * vocabulary + token, mask=is_step, other=0.0)
    coin = tl.load(coins + at, mask=is_step, other=0.0)
    is_rejected = (coin * guess.to(tl.float32) >= chance.to(tl.float32)) & is_step
    first = tl.min(tl.where(is_rejected, every, steps))
    start = (sequence * steps + step).to(tl.int64) * vocabulary
    lanes = tl.arange(0, BLOCK)
    best = tl.full([BLOCK], -1.0, tl.float32)
    place = tl.full([BLOCK], 0x7FFFFFFF, tl.int32)
    for block in range(0, vocabulary, BLOCK):
        index = block + lanes
        inside = index < vocabulary
        left = tl.load(target + start + index, inside, 0.0, eviction_policy="evict_first")
        right = tl.load(draft + start + index, inside, 0.0, eviction_policy="evict_first")
        left, right = left.to(tl.float32), right.to(tl.float32)
        weight = tl.load(noise + sequence * vocabulary + index, mask=inside, other=0.0)
        score = tl.where(inside, tl.maximum(left - right, 0.0) * weight, -1.0)
        is_better = score > best
        best = tl.where(is_better, score, best)
        place = tl.where(is_better, index, place)
    recovered = tl.min(tl.where(best == tl.max(best), place, 0x7FFFFFFF))
    if step == first:
        tl.store(accepted + sequence, first)
        tl.store(tokens + sequence, recovered)
    if (first == steps) & (step == 0):
        tl.store(accepted + sequence, steps)
        tl.store(tokens + sequence, tl.load(bonus + sequence))


def verify(target, draft, drafted, coins, noise, bonus, accepted, tokens):
    """Write how many drafted tokens of a sequence are accepted, and the token after them."""
    sequences, steps, vocabulary = target.shape
    verify_step[(sequences, steps)](
        target,
        draft,
        drafted,
        coins,
        noise,
        bonus,
        accepted,
        tokens,
        steps,
        vocabulary,
        STEPS=triton.next_power_of_2(steps),
        BLOCK=4096,
        num_warps=8,
    )
