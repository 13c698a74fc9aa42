"""Profiles a variant: compiler reports, Nsight Compute counters, torch's profiler."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelkb.measure.build.folders import find_machine_code
from kernelkb.measure.job_specs import make_case_spec, make_code_spec, make_reference_spec
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.process.worker_jobs import run_job
from kernelkb.measure.profile.ncu import (
    CountedStages,
    NextCounters,
    count_in_stages,
    describe_counter_error,
)
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.jobs import (
    RepeatJob,
    TorchProfileJob,
    TorchProfileResult,
)
from kernelkb.measure.worker.shared.messages.specs import InputSpec
from kernelkb.model.kernels.kernel import Variant
from kernelkb.model.records.measurement import Bench, Build, Loop, Profile
from kernelkb.profiles.machine_code import measure_built_code

TIMEOUT_S = 180.0
_COUNTER_CALLS = 3
"""Calls under ncu, which profiles one of them."""
_TIMELINE_CALLS = 20
"""Calls under torch's profiler, which reports their mean."""
_LAUNCH_BOUND_RATIO = 1.3
"""Time of a call with its launch over the kernel's, above which the launch is worth a profile."""
_SHOWN_KERNELS = 4
_OTHER_NCU_CURE = "use another version of ncu; until then use ptxas"
_FLOAT_DTYPES = ("float64", "float32", "float16", "bfloat16")


def profile(
    subject: MeasurementSubject,
    build: Build,
    bench: Bench,
    next_counters: NextCounters,
    report_folder: Path,
) -> Profile:
    """Profile a variant on the workload that was timed.

    On a CPU: the compiler's vectorisation report. On a GPU: ptxas's report, Nsight Compute's
    counters, stage by stage as long as ``next_counters`` asks for more, and torch's profiler where
    the launch takes a large part of a call. No time of a profile is a measurement to report.

    Args:
        subject: What to profile.
        build: Its build.
        bench: Its measurement; its metrics are part of the profile.
        next_counters: Chooses the counters of each stage.
        report_folder: Where ncu's raw pages are kept; each can be read again as a report.
    """
    started = time.monotonic()
    if subject.machine.target == "cpu":
        fields = _profile_cpu(subject.variant, build)
    else:
        fields = _profile_gpu(subject, build, bench, next_counters, report_folder)
    fields["metrics"] = {**bench.metrics, **fields["metrics"]}
    fields["data"] = bench.data
    seconds = time.monotonic() - started
    return Profile(**subject.identity_fields, workload=bench.workload, **fields, seconds=seconds)


def _profile_gpu(
    subject: MeasurementSubject,
    build: Build,
    bench: Bench,
    next_counters: NextCounters,
    report_folder: Path,
) -> dict[str, Any]:
    metrics = static_metrics(build)
    evidence = list(_static_evidence(build))
    counted = CountedStages({}, (), None, describe_counter_error(), _OTHER_NCU_CURE)
    if counted.detail is None:
        known = {**bench.metrics, **metrics}
        job = make_repeat_job(subject, build, bench.workload, _COUNTER_CALLS)
        counted = count_in_stages(subject, job, known, next_counters, report_folder, TIMEOUT_S)
        metrics |= counted.metrics
    if _is_launch_bound(bench) or not counted.pages:
        timeline = _run_torch_profiler(subject, build, bench.workload)
        if timeline is not None:
            metrics |= _timeline_metrics(timeline)
            evidence += _timeline_evidence(timeline)
    return {
        "tool": "ncu" if counted.pages else "ptxas",
        "metrics": metrics,
        "evidence": tuple(evidence),
        "records": counted.pages,
        "report": counted.report,
        "detail": counted.detail,
        "cure": counted.cure if counted.detail else None,
    }


def make_repeat_job(
    subject: MeasurementSubject, build: Build, workload: str, call_count: int
) -> RepeatJob:
    """Return the job that ncu profiles: without torch where possible.

    ncu starts the process for each stage, and torch takes seconds to import. torch is needed for
    code that is no C function, for inputs that only it draws, and for the NVTX range that selects
    kernels where the variant names none.
    """
    kernel_folder, code = subject.kernel_folder, make_code_spec(subject, build)
    case = make_case_spec(kernel_folder, workload, kernel_folder.kernel.workloads[workload])
    reference = make_reference_spec(kernel_folder)
    draws_from_fill = reference["kind"] == "python" and not reference["inputs"]
    has_plain_inputs = draws_from_fill and all(
        "value" in spec or _can_draw_without_torch(spec) for spec in case["inputs"]
    )
    without_torch = code["kind"] == "c" and bool(subject.variant.kernels) and has_plain_inputs
    return {
        "mode": "repeat-without-torch" if without_torch else "repeat",
        "target": "cuda",
        "reference": reference,
        "code": code,
        "cases": [case],
        "call_count": call_count,
    }


def _can_draw_without_torch(spec: InputSpec) -> bool:
    """Return whether the worker without torch draws an input of the same distribution."""
    if spec["fill"] == "integers":
        bound = int(spec["scale"])
        is_power_of_two = bound & (bound - 1) == 0 and not spec.get("low")
        return "int" in spec["dtype"] and is_power_of_two
    is_drawn = spec["dtype"] in _FLOAT_DTYPES and spec["fill"] not in ("offsets", "permutation")
    return spec["fill"] == "zeros" or is_drawn


def _is_launch_bound(bench: Bench) -> bool:
    if bench.eager_us is None or bench.candidate_us is None:
        return False
    return bench.eager_us > _LAUNCH_BOUND_RATIO * bench.candidate_us


def list_launched_kernels(
    subject: MeasurementSubject, build: Build, workload: str
) -> Sequence[str]:
    """Return the names of the kernels that a variant launches, as torch's profiler reports them."""
    timeline = _run_torch_profiler(subject, build, workload)
    return tuple(timeline["kernels"]) if timeline else ()


def _run_torch_profiler(
    subject: MeasurementSubject, build: Build, workload: str
) -> TorchProfileResult | None:
    """Return torch's profile of some calls; None where it saw no kernel."""
    kernel_folder = subject.kernel_folder
    sizes = kernel_folder.kernel.workloads[workload]
    job: TorchProfileJob = {
        "mode": "torch-profile",
        "target": "cuda",
        "reference": make_reference_spec(kernel_folder),
        "code": make_code_spec(subject, build),
        "cases": [make_case_spec(kernel_folder, workload, sizes)],
        "call_count": _TIMELINE_CALLS,
    }
    with scratch_folder() as folder:
        result = run_job(job, folder, timeout_s=TIMEOUT_S).result
    return result if result and result["kernels"] else None


def _timeline_metrics(timeline: TorchProfileResult) -> dict[str, float]:
    call_us, kernels_us = timeline["call_us"], timeline["kernels_us"]
    return {
        "op_us": call_us,
        "op_kernels_us": min(kernels_us, call_us),
        "launch_count": timeline["launches"],
        "call_launch_count": max(1.0, timeline["launches"]),
        "gpu_idle_share": max(0.0, 1 - kernels_us / call_us),
    }


def _timeline_evidence(timeline: TorchProfileResult) -> list[str]:
    call_us = timeline["call_us"]
    longest = sorted(timeline["kernels"].items(), key=lambda item: -item[1])[:_SHOWN_KERNELS]
    evidence = [f"{name}: {us:.1f} us of a call of {call_us:.1f} us" for name, us in longest]
    if timeline["launch_call_us"] is not None:
        evidence.append(f"one launch takes the CPU {timeline['launch_call_us']:.1f} us")
    return evidence


def _profile_cpu(variant: Variant, build: Build) -> dict[str, Any]:
    has_report = bool(build.loops)
    return {
        "tool": "compiler",
        "metrics": _loop_metrics(build.loops),
        "evidence": _loop_evidence(variant, build.loops),
        "detail": None if has_report else "the compiler wrote no vectorisation report",
        "cure": None if has_report else "build with g++ or clang++",
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


def static_metrics(build: Build) -> dict[str, float]:
    """Return the metrics that the compiler reports, and those of its machine code."""
    if build.target != "cuda":
        return {}
    code = measure_built_code(find_machine_code(build))
    if not build.resources:
        return code
    return {
        **code,
        "spill_store_bytes": float(max(r.spill_store_bytes for r in build.resources)),
        "stack_bytes": float(max(r.stack_bytes for r in build.resources)),
    }


def _static_evidence(build: Build) -> tuple[str, ...]:
    largest = sorted(build.resources, key=lambda r: -r.registers)[:_SHOWN_KERNELS]
    return tuple(
        f"{r.kernel}: {r.registers} registers, {r.spill_store_bytes} B spilled, "
        f"{r.stack_bytes} B stack, {r.static_smem_bytes} B static shared memory"
        for r in largest
    )
