"""Raw windows → a verdict. Nothing here runs anything."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from kernelkb.loading.kernels import evaluate_axis_expression
from kernelkb.measure.case_specs import output_bytes, working_set_bytes
from kernelkb.measure.machine.gpu_telemetry import GpuSampler, summarize_clocks, was_throttled
from kernelkb.measure.machine.peaks import Peaks
from kernelkb.measure.statistics import Speedup, decide_verdict
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.timing_analysis import (
    FilteredPairs,
    Pair,
    apply_rival_copy_cost,
    combine_verdicts,
    compute_speedups,
    describe_clock_disagreement,
    describe_precomputation,
    filter_pairs,
    overhead_ns,
)
from kernelkb.measure.worker.shared.messages.judge_jobs import BenchTimes
from kernelkb.model.kernel import Kernel
from kernelkb.model.measurement import Clocks, Disturbance, Rival

_FLOOR_MARGIN = 1.2  # above the measured peak by more than its own noise
_LAUNCH_BOUND_US = 10.0
_MAX_INTERVAL_RATIO = 2.0
_INVALID_CURE = "make every call do all of its work before it returns, on the stream it is given"


def compute_bench_fields(
    subject: MeasurementSubject,
    workload: str,
    raw: BenchTimes,
    peaks: Peaks,
    sampler: GpuSampler,
) -> dict[str, Any]:
    """Return the fields of a Bench that follow from raw batches.

    Args:
        subject: What was timed.
        workload: Its name.
        raw: As ``run_paired_bench`` returned it.
        peaks: Of the machine.
        sampler: Clocks and temperature of the GPU meanwhile.
    """
    sift = _filter_raw_pairs(raw, sampler)
    kept = sift.selected_pairs
    gap = overhead_ns(kept)
    by_judge, speedup, times = compute_speedups(kept, gap)
    kernel_us = statistics.median(candidate for candidate, _ in times) / 1e3
    floor_us, roof = compute_time_floor(subject, workload, peaks, kept[0][0].calls)
    doubt = _find_cheat(raw, kept, gap) or _describe_floor_violation(kernel_us, floor_us, roof)
    seen = _summarize_pair_clocks(sift, sampler)
    disturbance = find_disturbance(sift, speedup, seen)
    return {
        "verdict": "invalid" if doubt else _decide_verdict(sift, speedup, by_judge),
        "detail": doubt,
        "cure": _INVALID_CURE if doubt else None,
        **_make_speedup_fields(kernel_us, speedup),
        "pair_count": len(kept),
        "floor_us": floor_us,
        "attainable_speedup": max(1.0, kernel_us / floor_us) if floor_us else None,
        "clocks": seen,
        "disturbed_by": disturbance,
        "warnings": tuple(_iter_warnings(sift, disturbance, seen, raw, kernel_us)),
        "metrics": _compute_metrics(subject, workload, raw, peaks, kernel_us, speedup),
        "samples": tuple((candidate / 1e3, rival / 1e3) for candidate, rival in times),
        **_copy_reported_fields(raw),
    }


def _find_cheat(raw: BenchTimes, kept: Sequence[Pair], gap: float) -> str | None:
    mine, alone = [batch for batch, _ in kept], raw["single_call_batches"]
    cheat = describe_clock_disagreement(mine, gap) or describe_precomputation(alone, mine, gap)
    return _describe_leftover_threads(raw) or cheat


def _decide_verdict(sift: FilteredPairs, speedup: Speedup, by_judge: Speedup) -> str:
    if sift.is_throttled or sift.is_contended:
        return "inconclusive"
    return combine_verdicts(decide_verdict(speedup), decide_verdict(by_judge))


def _make_speedup_fields(kernel_us: float, speedup: Speedup) -> dict[str, Any]:
    return {
        "candidate_us": kernel_us,
        "baseline_us": kernel_us * speedup.point,
        "speedup": speedup.point,
        "interval": (speedup.low, speedup.high),
    }


def _filter_raw_pairs(raw: BenchTimes, sampler: GpuSampler) -> FilteredPairs:
    pairs = list(zip(raw["candidate_batches"], raw["rival_batches"], strict=True))
    if raw["copy_ns"] is not None:
        pairs = apply_rival_copy_cost(pairs, raw["copy_ns"])
    cool = [pair for pair in pairs if not was_throttled(sampler.samples, *_pair_time_span(pair))]
    return filter_pairs(pairs, cool, raw["idle_read_ns"])


def _summarize_pair_clocks(filtered_pairs: FilteredPairs, sampler: GpuSampler) -> Clocks | None:
    start, end = filtered_pairs.pairs[0][0].start_s, filtered_pairs.pairs[-1][1].end_s
    dropped = (
        0
        if filtered_pairs.is_throttled
        else len(filtered_pairs.pairs) - len(filtered_pairs.unthrottled)
    )
    return summarize_clocks(sampler, start, end, dropped)


def _copy_reported_fields(raw: BenchTimes) -> dict[str, Any]:
    return {
        "baseline": raw["rival_name"],
        "timing": "graph" if raw["uses_graph"] else "eager",
        "eager_us": raw["eager_ns"] / 1e3,
        "warm_us": raw["warm_call_ns"] / 1e3,
        "rivals": _make_rivals(raw),
        "judged_count": raw["checked_count"],
        "layers": tuple(raw["layers"]),
    }


def _pair_time_span(pair: Pair) -> tuple[float, float]:
    return min(batch.start_s for batch in pair), max(batch.end_s for batch in pair)


def _describe_leftover_threads(raw: BenchTimes) -> str | None:
    started = raw["new_thread_count"]
    return f"it started {started} threads while it was timed, and left them" if started else None


def _describe_floor_violation(
    kernel_us: float, floor_us: float | None, roof: str | None
) -> str | None:
    if not _beats_time_floor(kernel_us, floor_us):
        return None
    return f"{kernel_us:.3g} us is below the {floor_us:.3g} us that {roof} allows on this machine"


def is_below_floor(fields: dict[str, Any]) -> bool:
    """Say whether what ``bench_fields`` returned is faster than its floor allows."""
    return _beats_time_floor(fields["candidate_us"], fields["floor_us"])


def _beats_time_floor(kernel_us: float, floor_us: float | None) -> bool:
    return floor_us is not None and kernel_us * _FLOOR_MARGIN < floor_us


def compute_time_floor(
    subject: MeasurementSubject, workload: str, peaks: Peaks, calls: int
) -> tuple[float | None, str | None]:
    """Return the fastest that a right kernel can be here, microseconds, and what says so.

    Outputs that the cache can hold need not have reached memory within a window.
    """
    source, cost = subject.kernel_folder, subject.kernel_folder.kernel.cost
    if cost is None:
        return None, None
    sizes = source.kernel.workloads[workload]
    written = output_bytes(source, workload)
    moved = evaluate_axis_expression(cost.bytes, sizes)
    if written * calls <= subject.machine.cache_bytes:
        moved = max(0.0, moved - written)
    roofs = [(moved / peaks.copy_gbps / 1e3, "the measured copy bandwidth")]
    rates = _gemm_rates(source.kernel, peaks)
    if rates:
        flops = evaluate_axis_expression(cost.flops, sizes)
        roofs.append((flops / max(rates) / 1e3, "the measured matrix product rate"))
    roofs.append((peaks.dispatch_us, "an empty call"))
    return max(roofs)


def _gemm_rates(kernel: Kernel, peaks: Peaks) -> list[float]:
    """Return the measured rates of the types that it may multiply; none where one is not known."""
    arrays = (*kernel.inputs, *kernel.outputs)
    types = {one.dtype for one in arrays if "float" in one.dtype}
    if not types <= set(peaks.gemm_gflops):
        return []
    return [peaks.gemm_gflops[one] for one in types]


def _make_rivals(raw: BenchTimes) -> tuple[Rival, ...]:
    timed = [
        Rival(
            name=name,
            eager_us=one["eager_ns"] / 1e3,
            graph_us=None if one["graph_ns"] is None else one["graph_ns"] / 1e3,
        )
        for name, one in raw["rivals"].items()
    ]
    return (*timed, *(Rival(name=n, rejected=why) for n, why in raw["rejection_reasons"].items()))


def find_disturbance(
    filtered_pairs: FilteredPairs, speedup: Speedup, gpu_clocks: Clocks | None
) -> Disturbance | None:
    """Return what slowed the machine down in most pairs; heat before contention."""
    if filtered_pairs.is_throttled and gpu_clocks is not None:
        return "thermal"
    waited = len(filtered_pairs.unthrottled) - len(filtered_pairs.clean)
    if filtered_pairs.is_contended and 2 * filtered_pairs.gpu_contended_count > waited:
        return "gpu-contention"
    if filtered_pairs.is_contended or speedup.high > _MAX_INTERVAL_RATIO * speedup.low:
        return "cpu-contention"
    return None


def _iter_warnings(
    sift: FilteredPairs,
    disturbance: Disturbance | None,
    gpu_clocks: Clocks | None,
    raw: BenchTimes,
    kernel_us: float,
) -> Iterator[str]:
    yield from _disturbance_warnings(sift, disturbance, gpu_clocks)
    yield from _launch_warnings(raw, kernel_us)


def _disturbance_warnings(
    filtered_pairs: FilteredPairs, disturbance: Disturbance | None, gpu_clocks: Clocks | None
) -> Iterator[str]:
    count = len(filtered_pairs.unthrottled)
    reasons = ", ".join(gpu_clocks.throttled) if gpu_clocks else ""
    if disturbance == "gpu-contention":
        yield (
            f"the GPU had other work while all processes stood still, in "
            f"{filtered_pairs.gpu_contended_count} of {count} pairs: something else uses it, or "
            f"the candidate left work behind; measure again when nothing does"
        )
    elif disturbance == "cpu-contention":
        yield (
            f"threads waited for cores in {count - len(filtered_pairs.clean)} of {count} pairs: "
            f"something else uses this machine, or they are more than its cores; measure again "
            f"when it is idle"
        )
    elif disturbance == "thermal":
        yield f"the GPU slowed down in nearly all pairs ({reasons}); measure again when it is cool"
    if disturbance != "thermal" and gpu_clocks and gpu_clocks.dropped_count:
        yield f"{gpu_clocks.dropped_count} pairs were dropped: {reasons}"


def _launch_warnings(raw: BenchTimes, kernel_us: float) -> Iterator[str]:
    if raw["no_graph_reason"]:
        yield f"it cannot be captured in a CUDA graph: {raw['no_graph_reason']}"
    if kernel_us < _LAUNCH_BOUND_US:
        yield (
            f"{kernel_us:.2g} us is mostly launch for whoever calls it once: "
            f"{raw['eager_ns'] / 1e3:.2g} us with the launch"
        )


def _compute_metrics(
    subject: MeasurementSubject,
    workload: str,
    raw: BenchTimes,
    peaks: Peaks,
    kernel_us: float,
    speedup: Speedup,
) -> dict[str, float]:
    source, _, machine = subject
    found = {
        "correct": 1.0,
        "speedup": speedup.point,
        "kernel_us": kernel_us,
        "working_set_bytes": float(working_set_bytes(source, workload)),
        "cache_bytes": float(machine.cache_bytes),
        "copy_peak_gbps": peaks.copy_gbps,
    }
    cost = source.kernel.cost
    if cost is not None:
        sizes = source.kernel.workloads[workload]
        found["algorithmic_bytes"] = evaluate_axis_expression(cost.bytes, sizes)
        found["algorithmic_flop_count"] = evaluate_axis_expression(cost.flops, sizes)
    if machine.target == "cuda":
        found |= {"call_us": raw["eager_ns"] / 1e3, "launch_floor_us": peaks.dispatch_us}
        return found
    in_memory = found["working_set_bytes"] >= 2 * found["cache_bytes"]
    if in_memory and cost is not None:
        share = found["algorithmic_bytes"] / kernel_us / 1e3 / peaks.copy_gbps
        found["algorithmic_bandwidth"] = min(1.0, share)
    return found | {
        "core_occupancy": min(1.0, (raw["busy_cores"] or 0.0) / machine.core_count),
        "core_count": float(machine.core_count),
        "simd_lanes_count": float(machine.simd_lanes_count),
        "dispatch_us": peaks.dispatch_us,
    }
