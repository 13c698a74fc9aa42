# kernel: run_ends_decode_counting/eight-warps/cuda
# change: 8 warps for each program instead of 4
"""Segments of values, from the ends of their runs."""

import triton
import triton.language as tl


@triton.jit
def decode_places(
    run_ends, values, decoded, RUNS: tl.constexpr, LENGTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Decode BLOCK places of one segment."""
    segment = tl.program_id(0)
    places = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ends = tl.load(run_ends + segment * RUNS + tl.arange(0, RUNS))
    run = tl.sum((ends[None, :] <= places[:, None]).to(tl.int32), axis=1)
    run = tl.minimum(run, RUNS - 1)
    value = tl.load(values + segment * RUNS + run)
    tl.store(decoded + segment.to(tl.int64) * LENGTH + places, value)


def decode_runs(run_ends, values, decoded):
    """Write the values of all places of all segments to decoded."""
    (segments, runs), length = run_ends.shape, decoded.shape[1]
    grid = (segments, length // 128)
    decode_places[grid](run_ends, values, decoded, RUNS=runs, LENGTH=length, BLOCK=128, num_warps=8)
