"""Adds the weighted outputs of eight experts to each token, in Triton; a program for each token."""

import triton
import triton.language as tl


@triton.jit
def add_choices(
    expert_rows, places, weights, out, width, CHOICES: tl.constexpr, BLOCK: tl.constexpr
):
    """Add the rows of all choices of one token."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    at = out + token * width + column
    total = tl.load(at, mask=inside, other=0.0)
    for choice in tl.static_range(CHOICES):
        place = tl.load(places + token * CHOICES + choice).to(tl.int64)
        weight = tl.load(weights + token * CHOICES + choice)
        value = tl.load(expert_rows + place * width + column, mask=inside, other=0.0)
        total += value.to(tl.float32) * weight
    tl.store(at, total, mask=inside)


def combine(expert_rows, places, weights, _hidden, out):
    """Add weights * expert_rows[places] over the choices to out, which starts as hidden."""
    tokens, choices = places.shape
    width = out.shape[1]
    grid = (tokens, triton.cdiv(width, 1024))
    add_choices[grid](expert_rows, places, weights, out, width, CHOICES=choices, BLOCK=1024)
