"""Cross-entropy of bf16 logits and its gradient in one pass, with streaming hints."""

import triton
import triton.language as tl


@triton.jit
def losses_and_gradients(
    logits, targets, losses, gradients, vocabulary, share, BLOCK: tl.constexpr
):
    """Compute loss and gradient of one row of at most BLOCK logits."""
    index = tl.program_id(0)
    start = index.to(tl.int64) * vocabulary
    lanes = tl.arange(0, BLOCK)
    inside = lanes < vocabulary
    target = tl.load(targets + index)
    at = logits + start + lanes
    logit = tl.load(at, inside, float("-inf"), eviction_policy="evict_first").to(tl.float32)
    top = tl.max(logit)
    weight = tl.exp(logit - top)
    total = tl.sum(weight)
    wanted = tl.load(logits + start + target).to(tl.float32)
    tl.store(losses + index, tl.log(total) + top - wanted)
    gradient = (weight / total - tl.where(lanes == target, 1.0, 0.0)) * share
    at = gradients + start + lanes
    tl.store(at, gradient.to(tl.bfloat16), mask=inside, eviction_policy="evict_first")


def cross_entropy(logits, targets, losses, gradients):
    """Write the losses (rows) and the gradients of their mean (rows, vocabulary)."""
    rows, vocabulary = logits.shape
    block = triton.next_power_of_2(vocabulary)
    losses_and_gradients[(rows,)](
        logits, targets, losses, gradients, vocabulary, 1.0 / rows, BLOCK=block
    )
