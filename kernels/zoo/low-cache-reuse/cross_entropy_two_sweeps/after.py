"""Cross-entropy of bf16 logits over a large vocabulary, in Triton; one sweep."""

import triton
import triton.language as tl


@triton.jit
def row_losses(logits, targets, losses, vocabulary, BLOCK: tl.constexpr):
    """Compute the loss of one row; the sum is rescaled when the maximum grows."""
    index = tl.program_id(0)
    row = logits + index.to(tl.int64) * vocabulary
    lanes = tl.arange(0, BLOCK)
    top = float("-inf")
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, vocabulary, BLOCK):
        logit = tl.load(row + first + lanes, first + lanes < vocabulary, other=float("-inf"))
        logit = logit.to(tl.float32)
        higher = tl.maximum(top, tl.max(logit))
        total = total * tl.exp(top - higher) + tl.exp(logit - higher)
        top = higher
    wanted = tl.load(row + tl.load(targets + index)).to(tl.float32)
    tl.store(losses + index, tl.log(tl.sum(total)) + top - wanted)


def cross_entropy(logits, targets, losses):
    """Write the loss of each row of logits (rows, vocabulary)."""
    rows, vocabulary = logits.shape
    row_losses[(rows,)](logits, targets, losses, vocabulary, BLOCK=4096, num_warps=8)
