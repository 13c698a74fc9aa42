"""Why is a variant as fast as it is? Metrics that explain; none of them is a time to report."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelkb.measure.ncu import collect_counters, describe_counter_error
from kernelkb.measure.process.worker_jobs import (
    Job,
    make_case_spec,
    make_reference_spec,
    run_job,
    scratch_folder,
)
from kernelkb.measure.runner_specs import make_code_spec
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.kernel import Variant
from kernelkb.model.measurement import Bench, Build, Loop, Profile
from kernelkb.profiles.launch import RawName

TIMEOUT_S = 180.0
_COUNTER_CALLS = 3
_TIMELINE_CALLS = 20
_LAUNCH_BOUND_RATIO = 1.3
_MAX_STAGES = 3
_FLOAT_DTYPES = ("float64", "float32", "float16", "bfloat16")

NextCounters = Callable[[Mapping[str, float]], Sequence[RawName]]
"""What to collect next, given what is known; nothing ends the profile."""


def profile(
    subject: MeasurementSubject,
    build: Build,
    bench: Bench,
    next_counters: NextCounters,
    report_folder: Path,
    *,
    timeout_s: float = TIMEOUT_S,
) -> Profile:
    """Explain a variant on the workload that was timed.

    On a CPU the evidence is the compiler's own vectorisation report and the times already taken;
    on a GPU it is what ptxas printed, Nsight Compute's counters, stage by stage as long as
    ``next_counters`` asks for more, and torch's profiler where the launch takes a large part of a
    call.

    Args:
        subject: What to explain.
        build: Its build.
        bench: Its measurement; its metrics are part of the profile.
        next_counters: Decides what is worth collecting.
        report_folder: Where the raw pages are kept; each can be read again as a report.
        timeout_s: For each stage.
    """
    started = time.monotonic()
    if subject.machine.target == "cpu":
        fields = _profile_cpu(subject.variant, build)
    else:
        fields = _profile_gpu(subject, build, bench, next_counters, report_folder, timeout_s)
    fields["metrics"] = {**bench.metrics, **fields["metrics"]}
    seconds = time.monotonic() - started
    return Profile(**subject.identity_fields, workload=bench.workload, **fields, seconds=seconds)


def _profile_gpu(
    subject: MeasurementSubject,
    build: Build,
    bench: Bench,
    next_counters: NextCounters,
    report_folder: Path,
    timeout_s: float,
) -> dict[str, Any]:
    metrics = _static_metrics(build)
    evidence = list(_static_evidence(build))
    kept: list[str] = []
    detail = describe_counter_error()
    cure = "use another version of ncu; until then go by times and ptxas"
    if detail is None:
        job, kernels = _make_repeat_job(subject, build, bench.workload), subject.variant.kernels
        asked: set[str] = set()
        for stage in range(_MAX_STAGES):
            wanted = next_counters({**bench.metrics, **metrics})
            names = [raw for raw in wanted if raw.metric not in asked]
            if not names:
                break
            asked |= {raw.metric for raw in names}
            found = collect_counters(job, kernels, names, timeout_s=timeout_s)
            if found.launch is None:
                detail, cure = found.reason, found.cure or ""
                break
            metrics |= found.launch.metrics
            kept.append(_save_page(report_folder, subject, stage, found.page))
    if _is_launch_bound(bench) or not kept:
        seen = _profile_timeline(subject, build, bench.workload, timeout_s)
        metrics |= seen["metrics"]
        evidence += seen["evidence"]
    return {
        "tool": "ncu" if kept else "ptxas",
        "metrics": metrics,
        "evidence": tuple(evidence),
        "records": tuple(kept),
        "detail": detail,
        "cure": cure if detail else None,
    }


def _make_repeat_job(subject: MeasurementSubject, build: Build, workload: str) -> Job:
    source, what = subject.kernel_folder, make_code_spec(subject, build)
    case = make_case_spec(source, workload, source.kernel.workloads[workload])
    reference = make_reference_spec(source)
    # Without torch where it can be, because ncu starts the process anew for each stage.
    drawn = reference["kind"] == "python" and not reference["inputs"]
    drawn = drawn and all("value" in one or _can_draw_without_torch(one) for one in case["inputs"])
    # Without names of kernels ncu goes by a range, which only torch can mark.
    light = what["kind"] == "c" and bool(subject.variant.kernels) and drawn
    return {
        "mode": "light" if light else "repeat",
        "target": "cuda",
        "reference": reference,
        "what": what,
        "cases": [case],
        "times": _COUNTER_CALLS,
    }


def _can_draw_without_torch(array: Job) -> bool:
    """Return whether the worker without torch draws an input as the one with torch does."""
    if array["fill"] == "integers":
        below = int(array["scale"])
        return "int" in array["dtype"] and below & (below - 1) == 0
    return array["dtype"] in _FLOAT_DTYPES or array["fill"] == "zeros"


def _save_page(report_folder: Path, subject: MeasurementSubject, stage: int, page: str) -> str:
    """Write a raw page beside the builds; ``kb recommend --profile`` reads it again."""
    report_folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(page.encode()).hexdigest()[:8]
    names = subject.identity_fields
    path = report_folder / f"{names['kernel']}-{names['variant']}-{digest}-{stage}.csv"
    path.write_text(page, encoding="utf-8")
    return str(path)


def _is_launch_bound(bench: Bench) -> bool:
    if bench.eager_us is None or bench.candidate_us is None:
        return False
    return bench.eager_us > _LAUNCH_BOUND_RATIO * bench.candidate_us


def list_launched_kernels(
    subject: MeasurementSubject, build: Build, workload: str
) -> Sequence[str]:
    """Return the names of the kernels that a variant launches, as torch's profiler sees them."""
    found = _run_torch_profiler(subject, build, workload, TIMEOUT_S)
    return tuple(found["kernels"]) if found else ()


def _run_torch_profiler(
    subject: MeasurementSubject, build: Build, workload: str, timeout_s: float
) -> Job | None:
    """Return what torch's profiler saw of some calls. See ``worker.jobs.torch_profile``."""
    job = {
        **_make_repeat_job(subject, build, workload),
        "mode": "timeline",
        "times": _TIMELINE_CALLS,
    }
    with scratch_folder() as folder:
        found = run_job(job, folder, timeout_s=timeout_s).result
    return found if found and found["kernels"] else None


def _profile_timeline(
    subject: MeasurementSubject, build: Build, workload: str, timeout_s: float
) -> dict[str, Any]:
    """Return what torch's profiler says of the calls: launches, gaps, names."""
    found = _run_torch_profiler(subject, build, workload, timeout_s)
    if found is None:
        return {"metrics": {}, "evidence": []}
    call, busy = found["call_us"], found["kernels_us"]
    metrics = {
        "op_us": call,
        "op_kernels_us": min(busy, call),
        "launch_count": found["launches"],
        "gpu_idle_share": max(0.0, 1 - busy / call),
    }
    longest = sorted(found["kernels"].items(), key=lambda pair: -pair[1])[:4]
    evidence = [f"{name}: {took:.1f} us of a call of {call:.1f} us" for name, took in longest]
    if found["launch_call_us"] is not None:
        evidence.append(f"one launch takes the CPU {found['launch_call_us']:.1f} us")
    return {"metrics": metrics, "evidence": evidence}


def _profile_cpu(variant: Variant, build: Build) -> dict[str, Any]:
    silent = not build.loops
    return {
        "tool": "compiler",
        "metrics": _loop_metrics(build.loops),
        "evidence": _loop_evidence(variant, build.loops),
        "detail": "the compiler wrote no vectorisation report" if silent else None,
        "cure": "build with g++ or clang++" if silent else None,
    }


def _loop_metrics(loops: Sequence[Loop]) -> dict[str, float]:
    if not loops:
        return {}
    vectorized = sum(loop.vectorized for loop in loops)
    return {
        "vector_loop_count": float(vectorized),
        "scalar_loop_count": float(len(loops) - vectorized),
    }


def _loop_evidence(variant: Variant, loops: Sequence[Loop]) -> tuple[str, ...]:
    return tuple(
        f"{variant.source}:{loop.line}: "
        f"{loop.reason if loop.vectorized else f'loop left scalar: {loop.reason}'}"
        for loop in loops
    )


def _static_metrics(build: Build) -> dict[str, float]:
    if not build.resources:
        return {}
    return {
        "spill_store_bytes": float(max(r.spill_store_bytes for r in build.resources)),
        "stack_bytes": float(max(r.stack_bytes for r in build.resources)),
    }


def _static_evidence(build: Build) -> tuple[str, ...]:
    most = sorted(build.resources, key=lambda r: -r.registers)[:4]
    return tuple(
        f"{r.kernel}: {r.registers} registers, {r.spill_store_bytes} B spilled, "
        f"{r.stack_bytes} B stack, {r.static_smem_bytes} B static shared memory"
        for r in most
    )
