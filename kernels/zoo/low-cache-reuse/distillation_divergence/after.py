"""Divergence of a student's softmax from a teacher's over a large vocabulary; one sweep."""

import triton
import triton.language as tl


@triton.jit
def row_divergence(teacher, student, out, vocabulary, LOW: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the divergence of one row; sums are rescaled when a maximum grows."""
    row = tl.program_id(0).to(tl.int64)
    taught = teacher + row * vocabulary
    learnt = student + row * vocabulary
    lanes = tl.arange(0, BLOCK)
    top = tl.full((), LOW, tl.float32)
    height = tl.full((), LOW, tl.float32)
    masses = tl.zeros([BLOCK], tl.float32)
    weights = tl.zeros([BLOCK], tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, vocabulary, BLOCK):
        inside = first + lanes < vocabulary
        logit = tl.load(taught + first + lanes, mask=inside, other=LOW).to(tl.float32)
        guess = tl.load(learnt + first + lanes, mask=inside, other=LOW).to(tl.float32)
        higher = tl.maximum(top, tl.max(logit))
        taller = tl.maximum(height, tl.max(guess))
        shrink = tl.exp(top - higher)
        mass = tl.exp(logit - higher)
        masses = masses * shrink + mass
        total = total * shrink + mass * (logit - guess)
        weights = weights * tl.exp(height - taller) + tl.exp(guess - taller)
        top = higher
        height = taller
    mass = tl.sum(masses)
    shift = top + tl.log(mass)
    guess_shift = height + tl.log(tl.sum(weights))
    tl.store(out + row, tl.sum(total) / mass - shift + guess_shift)


def diverge(teacher, student, divergence):
    """Write the divergence of each row of teacher and student (rows, vocabulary), bf16."""
    rows, vocabulary = teacher.shape
    row_divergence[(rows,)](
        teacher, student, divergence, vocabulary, LOW=-1.0e30, BLOCK=2048, num_warps=8
    )
