"""Raw windows → a verdict. Nothing here runs anything."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from kernelkb.loading.kernels import evaluate
from kernelkb.measure.array_sizes import output_bytes, working_set_bytes
from kernelkb.measure.machine.gpu_telemetry import Watch, alarmed, clocks
from kernelkb.measure.machine.peaks import Peaks
from kernelkb.measure.statistics import Speedup, verdict
from kernelkb.measure.subject import Subject
from kernelkb.measure.timing_analysis import (
    Pair,
    Sifted,
    Window,
    agreed,
    compared,
    disagreement,
    returned,
    sifted,
    way,
    works_ahead,
)
from kernelkb.model.kernel import Kernel
from kernelkb.model.measurement import Clocks, Rival

Raw = dict[str, Any]

CROWDED = "threads waited for cores"
SHARED = "the GPU had other work while all processes stood still"
HOT = "the GPU slowed down in nearly all pairs"
"""How the warnings begin of a machine that was not the candidate's alone, or was too warm."""

_IMPOSSIBLE = 1.2  # above the measured peak by more than its own noise
_SMALL_US = 10.0
_SCATTERED = 2.0
_CURE = "make every call do all of its work before it returns, on the stream it is given"


def bench_fields(
    subject: Subject, workload: str, raw: Raw, peaks: Peaks, watch: Watch
) -> dict[str, Any]:
    """Return the fields of a Bench that follow from raw windows.

    Args:
        subject: What was timed.
        workload: On what.
        raw: What ``kernelkb.measure.worker.judge.paired_bench.measure`` returned.
        peaks: What the machine can do.
        watch: What its GPU said of itself meanwhile.
    """
    sift = _sift(raw, watch)
    kept = sift.kept
    gap = way(kept)
    by_judge, speedup, times = compared(kept, gap)
    kernel_us = statistics.median(candidate for candidate, _ in times) / 1e3
    floor_us, roof = floor_of(subject, workload, peaks, kept[0][0].calls)
    mine, alone = [one for one, _ in kept], [Window(*one) for one in raw["alone"]]
    cheat = disagreement(mine, gap) or works_ahead(alone, mine, gap)
    doubt = _left_threads(raw) or cheat or _too_fast(kernel_us, floor_us, roof)
    said = "inconclusive" if sift.hot or sift.busy else agreed(verdict(speedup), verdict(by_judge))
    seen = _clocks(sift, watch)
    return {
        "verdict": "invalid" if doubt else said,
        "detail": doubt,
        "cure": _CURE if doubt else None,
        "candidate_us": kernel_us,
        "baseline_us": kernel_us * speedup.point,
        "speedup": speedup.point,
        "interval": (speedup.low, speedup.high),
        "pair_count": len(kept),
        "floor_us": floor_us,
        "attainable_speedup": max(1.0, kernel_us / floor_us) if floor_us else None,
        "clocks": seen,
        "warnings": (*_of_others(sift, speedup), *_of_heat(sift, seen), *_warnings(raw, kernel_us)),
        "metrics": _metrics(subject, workload, raw, peaks, kernel_us, speedup),
        "samples": tuple((candidate / 1e3, rival / 1e3) for candidate, rival in times),
        **_as_reported(raw),
    }


def _sift(raw: Raw, watch: Watch) -> Sifted:
    pairs = [
        (Window(*one), Window(*other))
        for one, other in zip(raw["candidate"], raw["rival_times"], strict=True)
    ]
    if raw["copy_ns"] is not None:
        pairs = returned(pairs, raw["copy_ns"])
    cool = [pair for pair in pairs if not alarmed(watch.samples, *_span(pair))]
    return sifted(pairs, cool, raw["quiet_ns"])


def _clocks(sift: Sifted, watch: Watch) -> Clocks | None:
    start, end = sift.pairs[0][0].start, sift.pairs[-1][1].end
    dropped = 0 if sift.hot else len(sift.pairs) - len(sift.cool)
    return clocks(watch, start, end, dropped)


def _as_reported(raw: Raw) -> dict[str, Any]:
    return {
        "baseline": raw["rival"],
        "timing": "graph" if raw["graph"] else "eager",
        "eager_us": raw["eager_ns"] / 1e3,
        "warm_us": raw["warm_ns"][0] / 1e3,
        "rivals": _rivals(raw),
        "judged_count": raw["checked"],
        "layers": tuple(raw["layers"]),
    }


def _span(pair: Pair) -> tuple[float, float]:
    return min(w.start for w in pair), max(w.end for w in pair)


def _left_threads(raw: Raw) -> str | None:
    started = raw["threads_started"]
    return f"it started {started} threads while it was timed, and left them" if started else None


def _too_fast(kernel_us: float, floor_us: float | None, roof: str | None) -> str | None:
    if not _below(kernel_us, floor_us):
        return None
    return f"{kernel_us:.3g} us is below the {floor_us:.3g} us that {roof} allows on this machine"


def beats_floor(fields: dict[str, Any]) -> bool:
    """Say whether what ``bench_fields`` returned is faster than its floor allows."""
    return _below(fields["candidate_us"], fields["floor_us"])


def _below(kernel_us: float, floor_us: float | None) -> bool:
    return floor_us is not None and kernel_us * _IMPOSSIBLE < floor_us


def floor_of(
    subject: Subject, workload: str, peaks: Peaks, calls: int
) -> tuple[float | None, str | None]:
    """Return the fastest that a right kernel can be here, microseconds, and what says so.

    Outputs that the cache can hold need not have reached memory within a window.
    """
    source, cost = subject.source, subject.source.kernel.cost
    if cost is None:
        return None, None
    sizes = source.kernel.workloads[workload]
    written = output_bytes(source, workload)
    moved = evaluate(cost.bytes, sizes)
    if written * calls <= subject.machine.cache_bytes:
        moved = max(0.0, moved - written)
    roofs = [(moved / peaks.copy_gbps / 1e3, "the measured copy bandwidth")]
    rates = _product_rates(source.kernel, peaks)
    if rates:
        flops = evaluate(cost.flops, sizes)
        roofs.append((flops / max(rates) / 1e3, "the measured matrix product rate"))
    roofs.append((peaks.dispatch_us, "an empty call"))
    return max(roofs)


def _product_rates(kernel: Kernel, peaks: Peaks) -> list[float]:
    """Return the measured rates of the types that it may multiply; none where one is not known."""
    arrays = (*kernel.inputs, *kernel.outputs)
    types = {one.dtype for one in arrays if "float" in one.dtype}
    if not types <= set(peaks.gemm_gflops):
        return []
    return [peaks.gemm_gflops[one] for one in types]


def _rivals(raw: Raw) -> tuple[Rival, ...]:
    timed = [
        Rival(
            name=name,
            eager_us=one["eager_ns"] / 1e3,
            graph_us=None if one["graph_ns"] is None else one["graph_ns"] / 1e3,
        )
        for name, one in raw["rivals"].items()
    ]
    return (*timed, *(Rival(name=n, rejected=why) for n, why in raw["rejected"].items()))


def _of_others(sift: Sifted, speedup: Speedup) -> Iterator[str]:
    waited, count = len(sift.cool) - len(sift.calm), len(sift.cool)
    if sift.busy and 2 * sift.shared_count > waited:
        yield (
            f"{SHARED}, in {sift.shared_count} of {count} pairs: something else uses it, or the "
            f"candidate left work behind; measure again when nothing does"
        )
    elif sift.busy or speedup.high > _SCATTERED * speedup.low:
        yield (
            f"{CROWDED} in {waited} of {count} pairs: something else uses this "
            f"machine, or they are more than its cores; measure again when it is idle"
        )


def _of_heat(sift: Sifted, seen: Clocks | None) -> Iterator[str]:
    if seen is None:
        return
    why = ", ".join(seen.throttled)
    if sift.hot:
        yield f"{HOT} ({why}); measure again when it is cool"
    elif seen.dropped_count:
        yield f"{seen.dropped_count} pairs were dropped: {why}"


def _warnings(raw: Raw, kernel_us: float) -> tuple[str, ...]:
    found = []
    if raw["graph_why"]:
        found.append(f"it cannot be captured in a CUDA graph: {raw['graph_why']}")
    if kernel_us < _SMALL_US:
        found.append(
            f"{kernel_us:.2g} us is mostly launch for whoever calls it once: "
            f"{raw['eager_ns'] / 1e3:.2g} us with the launch"
        )
    return tuple(found)


def _metrics(
    subject: Subject, workload: str, raw: Raw, peaks: Peaks, kernel_us: float, speedup: Speedup
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
        found["algorithmic_bytes"] = evaluate(cost.bytes, sizes)
        found["algorithmic_flop_count"] = evaluate(cost.flops, sizes)
    if machine.target == "cuda":
        found |= {"call_us": raw["eager_ns"] / 1e3, "launch_floor_us": peaks.dispatch_us}
        return found
    in_memory = found["working_set_bytes"] >= 2 * found["cache_bytes"]
    if in_memory and cost is not None:
        share = found["algorithmic_bytes"] / kernel_us / 1e3 / peaks.copy_gbps
        found["algorithmic_bandwidth"] = min(1.0, share)
    return found | {
        "core_occupancy": min(1.0, raw["busy"] / machine.core_count),
        "core_count": float(machine.core_count),
        "simd_lanes_count": float(machine.simd_lanes_count),
        "dispatch_us": peaks.dispatch_us,
    }
