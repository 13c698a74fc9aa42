"""Computes the fields of a Bench on memory, energy and the judge's own time. Pure: runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from kernelkb.device_math.parse_size import format_size
from kernelkb.measure.machine.gpu_telemetry import GpuSample, GpuSampler
from kernelkb.measure.worker.shared.messages.judge_jobs import BenchJob, BenchTimes, EnergyStretch
from kernelkb.model.base import Target
from kernelkb.model.records.resource_use import ResourceUse

_WARNING_PERCENT = 10
"""How much more memory than the baseline's, in percent of its peak, the verdict speaks of."""
_MIN_PEAK_EXCESS_BYTES = {"cpu": 2**20, "cuda": 32 * 2**20}
"""Smaller differences say nothing: on a CPU single pages, on a GPU the blocks of torch's allocator,
2 to 20 MiB for each of several sizes."""
_MIN_HELD_EXCESS_BYTES = 32 * 2**20
"""The same for what a process keeps, in which imported modules and libraries count."""
_RAMP_S = 0.1
"""Start of a stretch that does not count: power and counter lag behind."""
_MIN_COUNTER_SPAN_S = 0.3
_MIN_COUNTER_CHANGES = 3
"""Changes of the counter between which energy is computed: its own step is then below a third."""
_DIGITS = 3


def make_resource_use(
    bench_times: BenchTimes,
    working_set_bytes: int,
    samples: Sequence[GpuSample],
    judge_s: float,
) -> ResourceUse:
    """Return what the judge measured besides times.

    Args:
        bench_times: As the judge returned them.
        working_set_bytes: All inputs and outputs of one call.
        samples: Of the GPU's energy counter.
        judge_s: What the judge's process took altogether.
    """
    candidate, rival = bench_times["candidate_memory"], bench_times["rival_memory"]
    steps = bench_times["step_seconds"]
    start_s = max(0.0, judge_s - sum(steps.values()))  # starting processes, importing torch
    return ResourceUse(
        peak_bytes=_add_bytes(working_set_bytes, candidate["scratch_bytes"]),
        baseline_peak_bytes=_add_bytes(working_set_bytes, rival["scratch_bytes"]),
        held_bytes=candidate["held_bytes"],
        baseline_held_bytes=rival["held_bytes"],
        joules=compute_joules_per_call(samples, bench_times["candidate_energy"]),
        baseline_joules=compute_joules_per_call(samples, bench_times["rival_energy"]),
        step_seconds={
            name: round(seconds, _DIGITS) for name, seconds in ({"start": start_s} | steps).items()
        },
    )


def _add_bytes(working_set_bytes: int, scratch_bytes: int | None) -> int | None:
    return None if scratch_bytes is None else working_set_bytes + scratch_bytes


def compute_joules_per_call(
    samples: Sequence[GpuSample], stretch: EnergyStretch | None
) -> float | None:
    """Return the energy of one call from a GPU's energy counter; None where it cannot be known.

    The counter changes every 20 to 100 ms only. So the power between the first and the last of its
    changes within the stretch is taken for all of it.

    Args:
        samples: Of the counter, in the order of time, every 20 ms.
        stretch: Calls in a row.
    """
    if stretch is None:
        return None
    inside = [s for s in samples if stretch["start_s"] + _RAMP_S <= s.time_s <= stretch["end_s"]]
    changes = [
        sample for before, sample in pairwise(inside) if sample.energy_j > before.energy_j > 0
    ]
    if len(changes) < _MIN_COUNTER_CHANGES:
        return None
    first, last = changes[0], changes[-1]
    if last.time_s - first.time_s < _MIN_COUNTER_SPAN_S:
        return None
    watts = (last.energy_j - first.energy_j) / (last.time_s - first.time_s)
    return watts * (stretch["end_s"] - stretch["start_s"]) / stretch["calls"]


def describe_memory_excess(use: ResourceUse, target: Target) -> Iterator[str]:
    """Yield a warning where the candidate needs at least 1.1 times the baseline's memory.

    Args:
        use: Of one bench.
        target: ``cpu`` or ``cuda``; differences below its measurement uncertainty say nothing.
    """
    peak, other_peak = use.peak_bytes, use.baseline_peak_bytes
    if peak is None and other_peak is not None:
        yield "its peak memory is not known: its process does not let its parent reset the mark"
    if peak is None or other_peak is None:
        return
    least = _WARNING_PERCENT * other_peak / 100
    if peak - other_peak >= max(least, _MIN_PEAK_EXCESS_BYTES[target]):
        yield (
            f"a call takes {format_size(peak)} of memory at its peak, {peak / other_peak:.3g} "
            f"times the baseline's {format_size(other_peak)}"
        )
    held, other_held = use.held_bytes, use.baseline_held_bytes
    if held is None or other_held is None:
        return
    if held - other_held >= max(least, _MIN_HELD_EXCESS_BYTES):
        yield (
            f"its process keeps {format_size(held)} of memory between calls, the baseline's "
            f"{format_size(other_held)}"
        )


def add_resource_use(
    fields: dict[str, Any],
    job: BenchJob,
    bench_times: BenchTimes,
    sampler: GpuSampler,
    judge_s: float,
) -> dict[str, Any]:
    """Return the fields of a Bench with its use of resources and the warnings about it.

    Args:
        fields: Those of ``compute_bench_fields``.
        job: What was measured.
        bench_times: As the judge returned them.
        sampler: Has samples of the GPU's energy counter.
        judge_s: What the judge's process took altogether.
    """
    use = make_resource_use(bench_times, job["working_set_bytes"], sampler.samples, judge_s)
    warnings = (*fields["warnings"], *describe_memory_excess(use, job["target"]))
    return {**fields, "resource_use": use, "warnings": warnings}
