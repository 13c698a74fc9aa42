"""Adds the weighted outputs of eight experts to each token, by 8 warps."""

import triton
import triton.language as tl


@triton.jit
def add_choice(
    expert_rows, places, weights, out, width, CHOICES: tl.constexpr, BLOCK: tl.constexpr
):
    """Add the row of one choice of one token."""
    choice = tl.program_id(0).to(tl.int64)
    token = choice // CHOICES
    place = tl.load(places + choice).to(tl.int64)
    weight = tl.load(weights + choice)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(expert_rows + place * width + column, mask=inside, other=0.0).to(tl.float32)
    tl.atomic_add(out + token * width + column, value * weight, mask=inside, sem="relaxed")


def combine(expert_rows, places, weights, _hidden, out):
    """Add weights * expert_rows[places] over the choices to out, which starts as hidden."""
    tokens, choices = places.shape
    width = out.shape[1]
    grid = (tokens * choices, triton.cdiv(width, 1024))
    add_choice[grid](
        expert_rows, places, weights, out, width, CHOICES=choices, BLOCK=1024, num_warps=8
    )
