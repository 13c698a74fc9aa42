"""Repetition penalty on logits for tokens that a history holds, by 8 warps."""

import triton
import triton.language as tl


@triton.jit
def penalise(logits, history, out, vocabulary, length, penalty, BLOCK: tl.constexpr):
    """Penalise those of BLOCK logits of one row whose token was seen."""
    row = tl.program_id(0)
    token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = token < vocabulary
    seen = tl.zeros([BLOCK], tl.int32)
    for place in range(length):
        seen |= (token == tl.load(history + row * length + place)).to(tl.int32)
    logit = tl.load(logits + row * vocabulary + token, mask=inside, other=0.0)
    lower = tl.where(logit > 0, logit / penalty, logit * penalty)
    tl.store(out + row * vocabulary + token, tl.where(seen > 0, lower, logit), mask=inside)


def apply_penalty(logits, history, penalty, out):
    """Write logits (rows, 32000), those of the tokens in history (rows, length) penalised."""
    rows, vocabulary = logits.shape
    grid = (rows, triton.cdiv(vocabulary, 1024))
    length = history.shape[1]
    penalise[grid](logits, history, out, vocabulary, length, penalty, BLOCK=1024, num_warps=8)
