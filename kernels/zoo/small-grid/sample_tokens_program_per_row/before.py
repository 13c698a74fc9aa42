"""Samples a token of each row: the argmax of logits over temperature plus noise, in Triton."""

import triton
import triton.language as tl


@triton.jit
def pick_tokens(logits, noise, temperatures, tokens, vocabulary, BLOCK: tl.constexpr):
    """Pick the token of one row; the first of equal ones."""
    row = tl.program_id(0)
    start = row.to(tl.int64) * vocabulary
    temperature = tl.maximum(tl.load(temperatures + row), 0.05)
    lanes = tl.arange(0, BLOCK)
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    place = tl.full([BLOCK], 0x7FFFFFFF, tl.int32)
    for first in range(0, vocabulary, BLOCK):
        token = first + lanes
        inside = token < vocabulary
        logit = tl.load(logits + start + token, mask=inside, other=float("-inf"))
        score = logit / temperature + tl.load(noise + start + token, mask=inside, other=0.0)
        is_better = score > best
        best = tl.where(is_better, score, best)
        place = tl.where(is_better, token, place)
    chosen = tl.where(best == tl.max(best), place, 0x7FFFFFFF)
    tl.store(tokens + row, tl.min(chosen))


def sample_tokens(logits, noise, temperatures, tokens):
    """Write one token for each row of logits and noise (rows, vocabulary), float32."""
    rows, vocabulary = logits.shape
    pick_tokens[(rows,)](logits, noise, temperatures, tokens, vocabulary, BLOCK=2048, num_warps=8)
