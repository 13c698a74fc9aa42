"""Samples a token of each row: the argmax of logits over temperature plus noise, in split rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def pick_candidates(
    logits, noise, temperatures, scores, places, vocabulary, part_size, BLOCK: tl.constexpr
):
    """Pick the best token of a part of one row; the first of equal ones."""
    row = tl.program_id(0)
    part = tl.program_id(1)
    start = row.to(tl.int64) * vocabulary
    temperature = tl.maximum(tl.load(temperatures + row), 0.05)
    lanes = tl.arange(0, BLOCK)
    last = tl.minimum((part + 1) * part_size, vocabulary)
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    place = tl.full([BLOCK], 0x7FFFFFFF, tl.int32)
    for first in range(part * part_size, last, BLOCK):
        token = first + lanes
        inside = token < last
        logit = tl.load(logits + start + token, mask=inside, other=float("-inf"))
        score = logit / temperature + tl.load(noise + start + token, mask=inside, other=0.0)
        is_better = score > best
        best = tl.where(is_better, score, best)
        place = tl.where(is_better, token, place)
    top = tl.max(best)
    chosen = tl.where(best == top, place, 0x7FFFFFFF)
    tl.store(scores + row * tl.num_programs(1) + part, top)
    tl.store(places + row * tl.num_programs(1) + part, tl.min(chosen))


@triton.jit
def pick_tokens(scores, places, tokens, parts, PARTS: tl.constexpr):
    """Pick the token of one row among those of its parts."""
    row = tl.program_id(0)
    part = tl.arange(0, PARTS)
    inside = part < parts
    score = tl.load(scores + row * parts + part, mask=inside, other=float("-inf"))
    place = tl.load(places + row * parts + part, mask=inside, other=0x7FFFFFFF)
    chosen = tl.where(score == tl.max(score), place, 0x7FFFFFFF)
    tl.store(tokens + row, tl.min(chosen))


def sample_tokens(logits, noise, temperatures, tokens):
    """Write one token for each row of logits and noise (rows, vocabulary), float32."""
    rows, vocabulary = logits.shape
    part_size = triton.cdiv(triton.cdiv(vocabulary, 32), 2048) * 2048
    parts = triton.cdiv(vocabulary, part_size)
    scores = torch.empty((rows, parts), dtype=torch.float32, device=logits.device)
    places = torch.empty((rows, parts), dtype=torch.int32, device=logits.device)
    pick_candidates[(rows, parts)](
        logits, noise, temperatures, scores, places, vocabulary, part_size, BLOCK=2048, num_warps=8
    )
    pick_tokens[(rows,)](scores, places, tokens, parts, PARTS=32, num_warps=1)
