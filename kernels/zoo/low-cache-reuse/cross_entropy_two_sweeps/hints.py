"""Cross-entropy of bf16 logits over a large vocabulary, with rows kept in L2."""

import triton
import triton.language as tl


@triton.jit
def row_losses(logits, targets, losses, vocabulary, BLOCK: tl.constexpr):
    """Compute the loss of one row."""
    index = tl.program_id(0)
    row = logits + index.to(tl.int64) * vocabulary
    lanes = tl.arange(0, BLOCK)
    largest = tl.full([BLOCK], float("-inf"), tl.float32)
    for first in range(0, vocabulary, BLOCK):
        inside = first + lanes < vocabulary
        logit = tl.load(row + first + lanes, inside, float("-inf"), eviction_policy="evict_last")
        largest = tl.maximum(largest, logit.to(tl.float32))
    top = tl.max(largest)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, vocabulary, BLOCK):
        inside = first + lanes < vocabulary
        logit = tl.load(row + first + lanes, inside, float("-inf"), eviction_policy="evict_last")
        total += tl.exp(logit.to(tl.float32) - top)
    wanted = tl.load(row + tl.load(targets + index)).to(tl.float32)
    tl.store(losses + index, tl.log(tl.sum(total)) + top - wanted)


def cross_entropy(logits, targets, losses):
    """Write the loss of each row of logits (rows, vocabulary)."""
    rows, vocabulary = logits.shape
    row_losses[(rows,)](logits, targets, losses, vocabulary, BLOCK=4096, num_warps=8)
