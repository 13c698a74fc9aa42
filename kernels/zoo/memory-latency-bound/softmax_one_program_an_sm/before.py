# kernel: softmax_one_program_an_sm/before/cuda
"""Softmax of rows of 2048 floats in Triton; each program walks over many rows."""

import triton
import triton.language as tl

PROGRAMS = 132  # one for each multiprocessor of an H100 or H200


@triton.jit
def normalize_rows(scores, shares, rows, columns, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    inside = places < columns
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        start = tl.cast(row, tl.int64) * columns
        values = tl.load(scores + start + places, mask=inside, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, axis=0))
        tl.store(shares + start + places, powers / tl.sum(powers, axis=0), mask=inside)


def softmax(scores, shares):
    """Write the softmax of each row of scores, which stay in a block of registers."""
    rows, columns = scores.shape
    normalize_rows[(min(rows, PROGRAMS),)](
        scores, shares, rows, columns, BLOCK=triton.next_power_of_2(columns), num_warps=4
    )
