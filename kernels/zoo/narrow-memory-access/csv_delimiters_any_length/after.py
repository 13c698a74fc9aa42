# kernel: csv_delimiters_any_length/after/cuda
# change: the length is specialised: 16 bytes for each load instead of 1
"""Commas and line ends of a text."""

import triton
import triton.language as tl

COMMA, LINE_END = 44, 10


@triton.jit
def count_block(text, counts, n, COMMA: tl.constexpr, LINE_END: tl.constexpr, BLOCK: tl.constexpr):
    """Count in one block of the text, and add to the counters."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    letters = tl.load(text + places, mask=places < n, other=0)
    commas = tl.sum((letters == COMMA).to(tl.int32), axis=0)
    lines = tl.sum((letters == LINE_END).to(tl.int32), axis=0)
    tl.atomic_add(counts, commas)
    tl.atomic_add(counts + 1, lines)


def count_delimiters(text, start, counts):
    """Add the commas and line ends of a text to counts, which starts as start."""
    del start
    n = text.numel()
    grid = (triton.cdiv(n, 16384),)
    count_block[grid](text, counts, n, COMMA=COMMA, LINE_END=LINE_END, BLOCK=16384)
