"""Why is a variant as fast as it is? Metrics that explain; none of them is a time to report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.measure.jobs import case_of, reference_of, run_job, scratch_folder
from engine.measure.partners import code_of
from engine.measure.subject import Subject
from engine.measure.tools import find_cuda_tool
from engine.model.kernel import Variant
from engine.model.measurement import Bench, Build, Loop, Profile
from engine.profiles.launch import RawName
from engine.profiles.ncu_csv import read_raw_page

TIMEOUT_S = 180.0
_CALLS = 3
_SECTIONS = (
    "SpeedOfLight",
    "LaunchStats",
    "Occupancy",
    "SchedulerStats",
    "WarpStateStats",
    "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
    "ComputeWorkloadAnalysis",
    "WorkloadDistribution",
    "SpeedOfLight_RooflineChart",
    "InstructionStats",
)
_FORBIDDEN = "ERR_NVGPUCTRPERM"


def profile(
    subject: Subject,
    built: Build,
    timed: Bench,
    raw_names: Sequence[RawName],
    *,
    timeout_s: float = TIMEOUT_S,
) -> Profile:
    """Explain a variant on the workload that was timed.

    On a CPU the evidence is the compiler's own vectorisation report and the times already taken;
    on a GPU it is what ptxas printed and Nsight Compute's counters.

    Args:
        subject: What to explain.
        built: Its build.
        timed: Its measurement; its metrics are part of the profile.
        raw_names: Which counters to read from Nsight Compute's report.
        timeout_s: For Nsight Compute.
    """
    started = time.monotonic()
    if subject.machine.target == "cpu":
        fields = _from_compiler(subject.variant, built)
    else:
        fields = _from_ncu(subject, built, timed.workload, raw_names, timeout_s)
    fields["metrics"] = {**timed.metrics, **fields["metrics"]}
    seconds = time.monotonic() - started
    return Profile(**subject.names, workload=timed.workload, **fields, seconds=seconds)


def _from_compiler(variant: Variant, built: Build) -> dict[str, Any]:
    silent = not built.loops
    return {
        "tool": "compiler",
        "metrics": _loop_metrics(built.loops),
        "evidence": _loop_evidence(variant, built.loops),
        "detail": "the compiler wrote no vectorisation report" if silent else None,
        "cure": "build with g++ or clang++" if silent else None,
    }


def _from_ncu(
    subject: Subject, built: Build, workload: str, raw_names: Sequence[RawName], timeout_s: float
) -> dict[str, Any]:
    counters, detail, cure = _ncu(subject, built, workload, raw_names, timeout_s)
    return {
        "tool": "ncu" if counters else "ptxas",
        "metrics": {**_static_metrics(built), **counters},
        "evidence": _static_evidence(built),
        "detail": detail,
        "cure": cure,
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


def _static_metrics(built: Build) -> dict[str, float]:
    if not built.resources:
        return {}
    return {
        "spill_store_bytes": float(max(r.spill_store_bytes for r in built.resources)),
        "stack_bytes": float(max(r.stack_bytes for r in built.resources)),
    }


def _static_evidence(built: Build) -> tuple[str, ...]:
    most = sorted(built.resources, key=lambda r: -r.registers)[:4]
    return tuple(
        f"{r.kernel}: {r.registers} registers, {r.spill_store_bytes} B spilled, "
        f"{r.stack_bytes} B stack, {r.static_smem_bytes} B static shared memory"
        for r in most
    )


def _ncu(
    subject: Subject, built: Build, workload: str, raw_names: Sequence[RawName], timeout_s: float
) -> tuple[dict[str, float], str | None, str | None]:
    """Return counters of the longest launch of the variant's own kernels; or why there are none."""
    ncu = find_cuda_tool("ncu")
    if ncu is None:
        return {}, "ncu was not found", "install Nsight Compute, or put ncu on PATH"
    source, variant, _ = subject
    job = {
        "mode": "repeat",
        "target": "cuda",
        "reference": reference_of(source),
        "what": code_of(subject, built),
        "cases": [case_of(source, workload, source.kernel.workloads[workload])],
        "times": _CALLS,
    }
    with scratch_folder() as folder:
        wrapper = _wrapper(ncu, variant, folder)
        end = run_job(job, folder, timeout_s=timeout_s, wrapper=wrapper)
        page = folder / "ncu.csv"
        text = page.read_text(encoding="utf-8", errors="replace") if page.exists() else ""
    if _FORBIDDEN in text + end.end.output:
        cure = "run as administrator, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
        return {}, "the driver forbids reading performance counters", cure
    if f'"{"Kernel Name"}"' not in text:
        said = [line for line in (text + end.end.output).splitlines() if "==" in line]
        what = said[-1] if said else f"ncu ended with {end.end.returncode} and no report"
        return {}, what, "run the command by hand to see more, or go on without counters"
    launches = read_raw_page(text, raw_names)
    longest = max(launches, key=lambda one: one.metrics.get("profiled_us", 0.0), default=None)
    if longest is None:
        names = ", ".join(variant.kernels)
        return {}, f"none of its launches is named {names}", "correct kernels: in kernel.yaml"
    return longest.metrics, None, None


def _wrapper(ncu: str, variant: Variant, folder: Path) -> tuple[str, ...]:
    pattern = "|".join(variant.kernels) or ".*"
    sections = [part for name in _SECTIONS for part in ("--section", name)]
    return (
        ncu,
        *sections,
        *("--kernel-name", f"regex:{pattern}", "--launch-skip", "1", "--launch-count", "1"),
        *("--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"),
        *("--log-file", str(folder / "ncu.csv")),
    )
