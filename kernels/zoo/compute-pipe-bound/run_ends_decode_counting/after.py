# kernel: run_ends_decode_counting/after/cuda
# change: a binary search of 7 steps instead of 128 comparisons for each place
"""Segments of values, from the ends of their runs."""

import triton
import triton.language as tl


@triton.jit
def decode_places(
    run_ends, values, decoded,
    RUNS: tl.constexpr, LEVELS: tl.constexpr, LENGTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Decode BLOCK places of one segment."""
    segment = tl.program_id(0)
    places = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    run = tl.zeros([BLOCK], tl.int32)
    step: tl.constexpr = RUNS // 2
    for level in tl.static_range(LEVELS):
        half = step >> level
        end = tl.load(run_ends + segment * RUNS + run + half - 1)
        run = tl.where(end <= places, run + half, run)
    value = tl.load(values + segment * RUNS + run)
    tl.store(decoded + segment.to(tl.int64) * LENGTH + places, value)


def decode_runs(run_ends, values, decoded):
    """Write the values of all places of all segments to decoded."""
    (segments, runs), length = run_ends.shape, decoded.shape[1]
    grid = (segments, length // 128)
    levels = runs.bit_length() - 1
    decode_places[grid](
        run_ends, values, decoded, RUNS=runs, LEVELS=levels, LENGTH=length, BLOCK=128
    )
