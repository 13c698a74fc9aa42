"""Computes a bench's verdict, warnings and metrics from timed batches. Pure: runs nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from kernelkb.measure.bench.bench_faults import describe_leftover_threads, find_cheat
from kernelkb.measure.bench.statistics import (
    MUCH_WAITING,
    FilteredPairs,
    Pair,
    Speedup,
    apply_rival_copy_cost,
    combine_verdicts,
    compute_speedups,
    decide_verdict,
    filter_pairs,
    overhead_ns,
)
from kernelkb.measure.job_specs import PRECISION_TITLES, output_bytes, working_set_bytes
from kernelkb.measure.machine.nvidia_driver import GpuSampler, summarize_clocks, was_throttled
from kernelkb.measure.machine.torch_info import Peaks
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.jobs import (
    BenchTimes,
    PrecisionReport,
    RivalTimes,
)
from kernelkb.model.kernels.kernel import Kernel, evaluate_axis_expression
from kernelkb.model.records.measurement import Accuracy, Clocks, Disturbance, Rival

_FLOOR_MARGIN = 1.2
"""A kernel this factor faster than its floor is impossible: measured peaks vary by less."""
_LAUNCH_BOUND_US = 10.0
"""A kernel below this time takes less than a launch, which is some 15 us (H100)."""
_INVALID_CURE = "make every call do all of its work before it returns, on the stream it is given"
_MAX_INTERVAL_RATIO = 2.0
"""Upper over lower end of an interval above which others must have used the machine."""
_SAME_ERROR = 1.25
"""Errors within this factor are reported as the same."""


def compute_bench_fields(
    subject: MeasurementSubject,
    workload: str,
    bench_times: BenchTimes,
    peaks: Peaks,
    sampler: GpuSampler,
) -> dict[str, Any]:
    """Return the fields of a Bench that follow from timed batches.

    Args:
        subject: What was timed.
        workload: Its name.
        bench_times: All times of the bench.
        peaks: Of the machine.
        sampler: Clocks and temperature of the GPU meanwhile.
    """
    filtered = _filter_pairs(bench_times, sampler)
    pairs = filtered.selected_pairs
    overhead = overhead_ns(pairs)
    on_cpu, busy = subject.variant.target == "cpu", filtered.is_contended
    judge_speedup, speedup, times = compute_speedups(pairs, overhead, busy, on_cpu=on_cpu)
    kernel_us = statistics.median(candidate_ns for candidate_ns, _ in times) / 1e3
    floor_us, roof = compute_time_floor(subject, workload, peaks, pairs[0][0].calls)
    cheat, doubt = find_cheat(bench_times, filtered, overhead)
    fault = cheat or _describe_floor_violation(kernel_us, floor_us, roof)
    accuracy = make_accuracy(bench_times, speedup)
    noise = _make_noise_fields(filtered, speedup, sampler)
    return {
        "verdict": "invalid" if fault else _decide_verdict(filtered, speedup, judge_speedup, doubt),
        "detail": fault or describe_fair_baseline(accuracy, speedup, bench_times["rival_name"]),
        "cure": _INVALID_CURE if fault else None,
        **_make_time_fields(kernel_us, speedup, floor_us),
        "accuracy": accuracy,
        "pair_count": len(pairs),
        **noise,
        "warnings": (*noise["warnings"], *_candidate_warnings(bench_times, kernel_us, doubt)),
        "metrics": _compute_metrics(subject, workload, bench_times, peaks, kernel_us, speedup),
        "samples": tuple((candidate / 1e3, rival / 1e3) for candidate, rival in times),
        **_copy_reported_fields(bench_times),
    }


def _decide_verdict(
    filtered: FilteredPairs, speedup: Speedup, judge_speedup: Speedup, doubt: str | None
) -> str:
    verdict = combine_verdicts(decide_verdict(speedup), decide_verdict(judge_speedup))
    has_doubts = filtered.is_throttled or filtered.is_contended or doubt is not None
    return "inconclusive" if has_doubts and verdict == "faster" else verdict


def _make_noise_fields(
    filtered: FilteredPairs, speedup: Speedup, sampler: GpuSampler
) -> dict[str, Any]:
    clocks = _summarize_pair_clocks(filtered, sampler)
    disturbance = find_disturbance(filtered, speedup, clocks)
    warnings = tuple(describe_disturbance(filtered, disturbance, clocks))
    return {"clocks": clocks, "disturbed_by": disturbance, "warnings": warnings}


def _make_time_fields(kernel_us: float, speedup: Speedup, floor_us: float | None) -> dict[str, Any]:
    return {
        "floor_us": floor_us,
        "attainable_speedup": max(1.0, kernel_us / floor_us) if floor_us else None,
        "candidate_us": kernel_us,
        "baseline_us": kernel_us * speedup.point,
        "speedup": speedup.point,
        "interval": (speedup.low, speedup.high),
    }


def _filter_pairs(bench_times: BenchTimes, sampler: GpuSampler) -> FilteredPairs:
    pairs = list(zip(bench_times["candidate_batches"], bench_times["rival_batches"], strict=True))
    if bench_times["copy_ns"] is not None:
        pairs = apply_rival_copy_cost(pairs, bench_times["copy_ns"])
    unthrottled = [
        pair for pair in pairs if not was_throttled(sampler.samples, *_pair_time_span(pair))
    ]
    return filter_pairs(pairs, unthrottled, bench_times["idle_read_ns"])


def _pair_time_span(pair: Pair) -> tuple[float, float]:
    return min(batch.start_s for batch in pair), max(batch.end_s for batch in pair)


def _summarize_pair_clocks(filtered: FilteredPairs, sampler: GpuSampler) -> Clocks | None:
    start_s, end_s = filtered.pairs[0][0].start_s, filtered.pairs[-1][1].end_s
    dropped = 0 if filtered.is_throttled else len(filtered.pairs) - len(filtered.unthrottled)
    return summarize_clocks(sampler, start_s, end_s, dropped)


def _copy_reported_fields(bench_times: BenchTimes) -> dict[str, Any]:
    return {
        "baseline": bench_times["rival_name"],
        "timing": "graph" if bench_times["uses_graph"] else "eager",
        "eager_us": bench_times["eager_ns"] / 1e3,
        "warm_us": bench_times["warm_call_ns"] / 1e3,
        "rivals": _make_rivals(bench_times),
        "judged_count": bench_times["checked_count"],
        "hidden_inputs": tuple(bench_times["hidden_inputs"]),
        "layers": tuple(bench_times["layers"]),
    }


def _describe_floor_violation(
    kernel_us: float, floor_us: float | None, roof: str | None
) -> str | None:
    if not _beats_time_floor(kernel_us, floor_us):
        return None
    return f"{kernel_us:.3g} us is below the {floor_us:.3g} us that {roof} allows on this machine"


def is_below_floor(fields: dict[str, Any]) -> bool:
    """Return whether fields of ``compute_bench_fields`` are faster than the floor allows."""
    return _beats_time_floor(fields["candidate_us"], fields["floor_us"])


def _beats_time_floor(kernel_us: float, floor_us: float | None) -> bool:
    return floor_us is not None and kernel_us * _FLOOR_MARGIN < floor_us


def compute_time_floor(
    subject: MeasurementSubject, workload: str, peaks: Peaks, calls: int
) -> tuple[float | None, str | None]:
    """Return the roofline floor of a correct kernel in microseconds, and the roof that sets it.

    The roofs are memory traffic at the measured copy bandwidth, floating-point work at the measured
    GEMM throughput, and an empty call. Outputs that fit into the cache for a whole batch need not
    have reached memory. Both results are None where kernel.yaml states no cost.

    Args:
        subject: What was timed.
        workload: Its name.
        peaks: Of the machine.
        calls: In one batch.
    """
    kernel_folder, cost = subject.kernel_folder, subject.kernel.cost
    if cost is None:
        return None, None
    sizes = kernel_folder.kernel.workloads[workload]
    written_bytes = output_bytes(kernel_folder, workload)
    moved_bytes = evaluate_axis_expression(cost.bytes, sizes)
    if written_bytes * calls <= subject.machine.cache_bytes:
        moved_bytes = max(0.0, moved_bytes - written_bytes)
    roofs = [(moved_bytes / peaks.copy_gbps / 1e3, "the measured copy bandwidth")]
    gemm_gflops = _gemm_gflops(kernel_folder.kernel, peaks)
    if gemm_gflops:
        flops = evaluate_axis_expression(cost.flops, sizes)
        roofs.append((flops / max(gemm_gflops) / 1e3, "the measured GEMM throughput"))
    roofs.append((peaks.dispatch_us, "an empty call"))
    return max(roofs)


def _gemm_gflops(kernel: Kernel, peaks: Peaks) -> list[float]:
    """Return the GEMM throughput of each floating-point dtype; empty where one is not measured."""
    arrays = (*kernel.inputs, *kernel.outputs)
    dtypes = {array.dtype for array in arrays if "float" in array.dtype}
    if not dtypes <= set(peaks.gemm_gflops):
        return []
    return [peaks.gemm_gflops[dtype] for dtype in dtypes]


def _make_rivals(bench_times: BenchTimes) -> tuple[Rival, ...]:
    timed = [
        Rival(
            name=name,
            eager_us=times["eager_ns"] / 1e3,
            graph_us=None if times["graph_ns"] is None else times["graph_ns"] / 1e3,
        )
        for name, times in bench_times["rivals"].items()
    ]
    rejections = bench_times["rejection_reasons"].items()
    return (*timed, *(Rival(name=name, rejected=reason) for name, reason in rejections))


def _candidate_warnings(
    bench_times: BenchTimes, kernel_us: float, doubt: str | None
) -> Iterator[str]:
    notes = bench_times.get("notes", ())
    yield from filter(None, (doubt, describe_leftover_threads(bench_times), *notes))
    if bench_times["no_graph_reason"]:
        yield f"it cannot be captured in a CUDA graph: {bench_times['no_graph_reason']}"
    if kernel_us < _LAUNCH_BOUND_US:
        yield (
            f"{kernel_us:.2g} us is mostly launch when it is called once: "
            f"{bench_times['eager_ns'] / 1e3:.2g} us with the launch"
        )


def _compute_metrics(
    subject: MeasurementSubject,
    workload: str,
    bench_times: BenchTimes,
    peaks: Peaks,
    kernel_us: float,
    speedup: Speedup,
) -> dict[str, float]:
    kernel_folder, _, machine = subject
    metrics = {
        "correct": 1.0,
        "speedup": speedup.point,
        "kernel_us": kernel_us,
        "working_set_bytes": float(working_set_bytes(kernel_folder, workload)),
        "cache_bytes": float(machine.cache_bytes),
        "copy_peak_gbps": peaks.copy_gbps,
    }
    cost = kernel_folder.kernel.cost
    if cost is not None:
        sizes = kernel_folder.kernel.workloads[workload]
        metrics["algorithmic_bytes"] = evaluate_axis_expression(cost.bytes, sizes)
        metrics["algorithmic_flop_count"] = evaluate_axis_expression(cost.flops, sizes)
    if machine.target == "cuda":
        metrics |= {"call_us": bench_times["eager_ns"] / 1e3, "launch_floor_us": peaks.dispatch_us}
        return metrics
    exceeds_cache = metrics["working_set_bytes"] >= 2 * metrics["cache_bytes"]
    if exceeds_cache and cost is not None:
        share = metrics["algorithmic_bytes"] / kernel_us / 1e3 / peaks.copy_gbps
        metrics["algorithmic_bandwidth"] = min(1.0, share)
    if bench_times["are_busy_cores_certain"]:
        busy_cores = bench_times["busy_cores"] or 0.0
        metrics["core_occupancy"] = min(1.0, busy_cores / machine.core_count)
    return metrics | {
        "core_count": float(machine.core_count),
        "simd_lanes_count": float(machine.simd_lanes_count),
        "dispatch_us": peaks.dispatch_us,
    }


def find_disturbance(
    filtered: FilteredPairs, speedup: Speedup, gpu_clocks: Clocks | None
) -> Disturbance | None:
    """Return what disturbed most pairs, or made the interval too wide; heat before contention."""
    if filtered.is_throttled and gpu_clocks is not None:
        return "thermal"
    waited = len(filtered.unthrottled) - len(filtered.clean)
    if filtered.is_contended and 2 * filtered.gpu_contended_count > waited:
        return "gpu-contention"
    if filtered.is_contended:
        return "cpu-contention"
    is_unsteady = speedup.high > _MAX_INTERVAL_RATIO * speedup.low
    return "unsteady-times" if is_unsteady else None


def describe_disturbance(
    filtered: FilteredPairs, disturbance: Disturbance | None, gpu_clocks: Clocks | None
) -> Iterator[str]:
    """Yield what disturbed a bench, with counts, and how many pairs were dropped for heat."""
    count = len(filtered.unthrottled)
    reasons = ", ".join(gpu_clocks.throttled) if gpu_clocks else ""
    if disturbance == "gpu-contention":
        yield (
            f"the GPU had other work while all processes were stopped, in "
            f"{filtered.gpu_contended_count} of {count} pairs: something else uses it, or "
            f"the candidate left work behind; measure again when nothing does"
        )
    elif disturbance == "cpu-contention":
        yield (
            f"threads waited for cores in {count - len(filtered.clean)} of {count} pairs: "
            f"something else uses this machine, or they are more than its cores; measure again "
            f"when it is idle"
        )
    elif (share := filtered.waited_share) > MUCH_WAITING:
        yield (
            f"other programs had its core for {share:.0%} of the time, which is taken off; so the "
            f"interval is wide, of 99.9 % instead of 95 %"
        )
    elif disturbance == "unsteady-times":
        yield (
            f"the interval spans a factor of more than {_MAX_INTERVAL_RATIO:g}, although no thread "
            f"had to wait for a core: something else uses this machine, or its calls take "
            f"different times; measure again when it is idle"
        )
    elif disturbance == "thermal":
        yield f"the GPU slowed down in nearly all pairs ({reasons}); measure again when it is cool"
    if disturbance != "thermal" and gpu_clocks and gpu_clocks.dropped_count:
        yield f"{gpu_clocks.dropped_count} pairs were dropped: {reasons}"


def make_accuracy(bench_times: BenchTimes, speedup: Speedup) -> Accuracy | None:
    """Return errors, precision of the baseline, and the speedup over the task's own precision.

    Args:
        bench_times: Of the bench.
        speedup: Over its baseline.

    Returns:
        None where no output was compared.
    """
    report = bench_times.get("precision")
    if report is None or report["candidate_error"] is None:
        return None
    best = bench_times["rival_name"]
    base = report["base"]
    fields: dict[str, Any] = {
        "candidate_error": report["candidate_error"],
        "reference_error": report["base_error"],
        "task_precision": base,
        "baseline_precision": report["rivals"].get(best, base),
        "admitted": tuple(dict.fromkeys(report["rivals"].values())),
    }
    if best not in report["rivals"]:
        return Accuracy(**fields)
    exact, time_ratio = _find_fastest_exact(bench_times, report)
    return Accuracy(
        **fields,
        baseline_error=report["rival_errors"].get(best),
        exact_baseline=exact,
        exact_speedup=speedup.point * time_ratio,
    )


def _find_fastest_exact(bench_times: BenchTimes, report: PrecisionReport) -> tuple[str, float]:
    """Return the fastest rival at the task's own precision, and its time over the baseline's."""
    uses_graph, times = bench_times["uses_graph"], bench_times["rivals"]

    def call_ns(name: str) -> float:
        rival: RivalTimes = times[name]
        return (uses_graph and rival["graph_ns"]) or rival["eager_ns"]

    fastest = min(report["base_rivals"], key=call_ns)
    return fastest, call_ns(fastest) / call_ns(bench_times["rival_name"])


def describe_fair_baseline(
    accuracy: Accuracy | None, speedup: Speedup, baseline: str
) -> str | None:
    """Return both speedups in one sentence, where the baseline computed at reduced precision.

    Args:
        accuracy: Of ``make_accuracy``.
        speedup: Over the baseline.
        baseline: Its name, with its precision.
    """
    if accuracy is None or accuracy.exact_speedup is None:
        return None
    task = accuracy.task_precision
    title = PRECISION_TITLES[task] if task else "as the task sets it"
    return (
        f"about {accuracy.exact_speedup:.3g}x of {accuracy.exact_baseline} ({title}), "
        f"{speedup.point:.3g}x of {baseline}, {_compare_errors(accuracy)}"
    )


def _compare_errors(accuracy: Accuracy) -> str:
    own, other = accuracy.candidate_error, accuracy.baseline_error
    if not other or not own or 1 / _SAME_ERROR <= other / own <= _SAME_ERROR:
        return "whose error is the same"
    return f"whose error is {other:.1e}, the candidate's {own:.1e}"
