"""Repetition penalty on logits for tokens that a history holds, in Triton; by the history."""

import triton
import triton.language as tl


@triton.jit
def penalise(logits, history, out, vocabulary, length, penalty, BLOCK: tl.constexpr):
    """Penalise the logits of BLOCK tokens of a history; equal tokens write the same value."""
    row = tl.program_id(0)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < length
    token = tl.load(history + row * length + place, mask=inside, other=0)
    logit = tl.load(logits + row * vocabulary + token, mask=inside, other=0.0)
    lower = tl.where(logit > 0, logit / penalty, logit * penalty)
    tl.store(out + row * vocabulary + token, lower, mask=inside)


def apply_penalty(logits, history, penalty, out):
    """Penalise the tokens in history (rows, length) in out, which starts as logits."""
    rows, vocabulary = logits.shape
    length = history.shape[1]
    grid = (rows, triton.cdiv(length, 128))
    penalise[grid](logits, history, out, vocabulary, length, penalty, BLOCK=128)
