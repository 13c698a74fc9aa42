"""How fast is a variant, next to the reference, on one workload? Raw times come from a child."""

from __future__ import annotations

import secrets
import statistics
import time
from pathlib import Path
from typing import Any

from engine.loading.kernels import KernelFolder, evaluate
from engine.measure.check import failure, judge
from engine.measure.jobs import Job, case_of, reference_of, run_job, scratch_folder, threads_env
from engine.measure.peaks import Peaks
from engine.measure.statistics import paired_speedup, verdict
from engine.measure.subject import Subject
from engine.model.measurement import Bench, Build, Machine

TIMEOUT_S = 120.0
_BUDGET_S = 3.0
_FEWEST_PAIRS, _MOST_PAIRS = 9, 200
_JUDGED_SETS = 2
_IMPOSSIBLE = 1.2  # above the measured peak by more than its own noise
_DTYPE_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def bench(
    subject: Subject,
    built: Build,
    peaks: Peaks,
    *,
    workload: str,
    timeout_s: float = TIMEOUT_S,
) -> Bench:
    """Time a built variant against the torch reference.

    Both run in one child, alternating, on rotating buffers that no cache holds; what was timed is
    judged again afterwards.

    Args:
        subject: What to time.
        built: Its build, which must not have failed.
        peaks: What the machine can do.
        workload: One of the kernel's named workloads.
        timeout_s: For the whole child.
    """
    started = time.monotonic()
    with scratch_folder() as folder:
        job = _job(subject, built, workload)
        env = threads_env(subject.machine.core_count)
        timed = run_job(job, folder, timeout_s=timeout_s, env=env)
        if timed.result is None:
            _, detail, cure = failure(timed, timeout_s)
            fields: dict[str, Any] = {"verdict": "invalid", "detail": detail, "cure": cure}
        else:
            fields = _times(subject, workload, timed.result, peaks)
            fields |= _judged_again(subject, job, timed.result["sets"], folder)
    seconds = time.monotonic() - started
    return Bench(**subject.names, workload=workload, **fields, seconds=seconds)


def _judged_again(subject: Subject, job: Job, sets: int, folder: Path) -> dict[str, Any]:
    """Return what a Bench says when a timed call was wrong; nothing when all were right."""
    cases = [{**job["cases"][0], "seed": job["seed"] + k} for k in range(sets)]
    wrong = [case for case in judge(subject, cases, folder)["cases"] if not case["correct"]]
    if not wrong:
        return {}
    share = 1 - wrong[0]["matched_ratio"]
    return {
        "verdict": "incorrect",
        "detail": f"a timed call was wrong in {share:.1%} of its elements",
        "cure": "look for state that is kept between calls",
    }


def working_set_bytes(source: KernelFolder, workload: str) -> int:
    """Return the bytes of all inputs and outputs of a workload."""
    sizes = source.kernel.workloads[workload]
    total = 0
    for array in (*source.kernel.inputs, *source.kernel.outputs):
        count = 1
        for dimension in array.shape:
            count *= dimension if isinstance(dimension, int) else sizes[dimension]
        total += count * _DTYPE_BYTES[array.dtype]
    return total


def _job(subject: Subject, built: Build, workload: str) -> Job:
    source = subject.source
    return {
        "mode": "time",
        "target": subject.variant.target,
        "library": built.library,
        "entry": source.kernel.entry,
        "reference": reference_of(source),
        "cases": [case_of(source, workload, source.kernel.workloads[workload], 0)],
        "seed": secrets.randbits(31),
        "working_set_bytes": working_set_bytes(source, workload),
        "cache_bytes": subject.machine.cache_bytes,
        "budget_s": _BUDGET_S,
        "min_pairs": _FEWEST_PAIRS,
        "max_pairs": _MOST_PAIRS,
        "judged_sets": _JUDGED_SETS,
    }


def _times(subject: Subject, workload: str, raw: Job, peaks: Peaks) -> dict[str, Any]:
    """Return the fields of a Bench that follow from raw times."""
    source, _, machine = subject
    speedup = paired_speedup(raw["candidate_ns"], raw["reference_ns"])
    copy_gbps = max(peaks.copy_gbps, raw["copy_gbps"])  # the kept peak may be of a busy hour
    kernel_us = statistics.median(raw["candidate_ns"]) / 1e3
    sizes = source.kernel.workloads[workload]
    metrics = {
        "correct": 1.0,
        "speedup": speedup.point,
        "kernel_us": kernel_us,
        "algorithmic_bytes": evaluate(source.kernel.cost.bytes, sizes),
        "algorithmic_flop_count": evaluate(source.kernel.cost.flops, sizes),
        "working_set_bytes": float(working_set_bytes(source, workload)),
        "cache_bytes": float(machine.cache_bytes),
        "copy_peak_gbps": copy_gbps,
    }
    metrics |= _cuda_metrics(raw, peaks) if machine.target == "cuda" else {}
    fields: dict[str, Any] = {"verdict": verdict(speedup)}
    if machine.target == "cpu":
        share = metrics["algorithmic_bytes"] / kernel_us / 1e3 / copy_gbps
        metrics |= _cpu_metrics(raw, machine, peaks)
        in_memory = metrics["working_set_bytes"] >= 2 * metrics["cache_bytes"]
        if share > _IMPOSSIBLE and in_memory:
            detail = f"it would move its bytes at {share:.2f} of the measured copy bandwidth"
            fields = {"verdict": "invalid", "detail": detail, "cure": "look for skipped work"}
        if in_memory:
            metrics["algorithmic_bandwidth"] = min(1.0, share)
    return {
        **fields,
        "candidate_us": kernel_us,
        "baseline_us": statistics.median(raw["reference_ns"]) / 1e3,
        "speedup": speedup.point,
        "interval": (speedup.low, speedup.high),
        "pair_count": len(raw["candidate_ns"]),
        "metrics": metrics,
    }


def _cpu_metrics(raw: Job, machine: Machine, peaks: Peaks) -> dict[str, float]:
    busy = raw["busy"]["cpu_ns"] / raw["busy"]["wall_ns"]
    return {
        "core_occupancy": min(1.0, busy / machine.core_count),
        "core_count": float(machine.core_count),
        "simd_lanes_count": float(machine.simd_lanes_count),
        "dispatch_us": peaks.dispatch_us,
    }


def _cuda_metrics(raw: Job, peaks: Peaks) -> dict[str, float]:
    busy = raw["busy"]
    return {
        "call_us": busy["wall_ns"] / busy["calls"] / 1e3,
        "launch_floor_us": peaks.dispatch_us,
    }
