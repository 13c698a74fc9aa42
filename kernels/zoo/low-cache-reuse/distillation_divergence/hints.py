"""Divergence of a student's softmax from a teacher's over a large vocabulary, with hints."""

import triton
import triton.language as tl


@triton.jit
def row_divergence(teacher, student, out, vocabulary, LOW: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the divergence of one row."""
    row = tl.program_id(0).to(tl.int64)
    taught = teacher + row * vocabulary
    learnt = student + row * vocabulary
    lanes = tl.arange(0, BLOCK)
    tops = tl.full([BLOCK], LOW, tl.float32)
    heights = tl.full([BLOCK], LOW, tl.float32)
    for first in range(0, vocabulary, BLOCK):
        inside = first + lanes < vocabulary
        tops = tl.maximum(
            tops,
            tl.load(taught + first + lanes, mask=inside, other=LOW, eviction_policy="evict_last"),
        )
        heights = tl.maximum(
            heights,
            tl.load(learnt + first + lanes, mask=inside, other=LOW, eviction_policy="evict_last"),
        )
    top = tl.max(tops)
    height = tl.max(heights)
    masses = tl.zeros([BLOCK], tl.float32)
    weights = tl.zeros([BLOCK], tl.float32)
    for first in range(0, vocabulary, BLOCK):
        inside = first + lanes < vocabulary
        logit = tl.load(
            taught + first + lanes, mask=inside, other=LOW, eviction_policy="evict_last"
        ).to(tl.float32)
        guess = tl.load(
            learnt + first + lanes, mask=inside, other=LOW, eviction_policy="evict_last"
        ).to(tl.float32)
        masses += tl.exp(logit - top)
        weights += tl.exp(guess - height)
    shift = top + tl.log(tl.sum(masses))
    guess_shift = height + tl.log(tl.sum(weights))
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, vocabulary, BLOCK):
        inside = first + lanes < vocabulary
        logit = tl.load(taught + first + lanes, mask=inside, other=LOW).to(tl.float32) - shift
        guess = tl.load(learnt + first + lanes, mask=inside, other=LOW).to(tl.float32) - guess_shift
        total += tl.exp(logit) * (logit - guess)
    tl.store(out + row, tl.sum(total))


def diverge(teacher, student, divergence):
    """Write the divergence of each row of teacher and student (rows, vocabulary), bf16."""
    rows, vocabulary = teacher.shape
    row_divergence[(rows,)](
        teacher, student, divergence, vocabulary, LOW=-1.0e30, BLOCK=2048, num_warps=8
    )
