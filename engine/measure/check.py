"""Is a variant right? It runs in one child, behind walls; another child judges what it wrote."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kernelkb.errors import EnvironmentGapError, KbError
from kernelkb.loading.kernels import KernelFolder
from kernelkb.measure.process.worker_jobs import (
    Job,
    JobRun,
    format_sizes,
    make_case_spec,
    make_reference_spec,
    run_job,
    scratch_folder,
    threads_env,
)
from kernelkb.measure.runner_specs import make_candidate_spec
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.measurement import Build, Check, CheckedCase

TIMEOUT_S = 60.0
_JUDGE_TIMEOUT_S = 300.0

_CURES = {
    "timed-out": "look for an endless loop, or allow more with --timeout",
    "out-of-memory": "try a smaller workload; look for memory that grows with every call",
    "limit-exceeded": "a kernel computes; it starts no programs and writes no files",
    "unloadable": 'the entry point must be extern "C" and named as in kernel.yaml',
    "crashed": "run kb bench --sanitize, or -fsanitize=address on a CPU; check the bounds",
    "kernel-error": "look up what the entry point reports, and on which workload",
}


def check(
    subject: MeasurementSubject,
    build: Build,
    *,
    workloads: Sequence[str],
    timeout_s: float = TIMEOUT_S,
) -> Check:
    """Check a built variant on fresh inputs, on odd shapes and on named workloads.

    Args:
        subject: What to check.
        build: Its build, which must not have failed.
        workloads: Named workloads besides the kernel's ``check_workloads``.
        timeout_s: For the candidate, all cases together.

    Raises:
        KbError: The tolerance accepts an output that is wrong on purpose, or the reference
            itself does not run.
    """
    started = time.monotonic()
    job = _make_job(subject, build, workloads, timeout_s)
    with scratch_folder() as folder:
        env = threads_env(subject.machine.core_count)
        ran = run_job(job, folder, timeout_s=timeout_s + _JUDGE_TIMEOUT_S, env=env)
    verdict = get_judge_result(subject, ran)
    if verdict["accepted"]:
        task = subject.kernel_folder.kernel.reference.module is not None
        cure = "tighten atol in its kernel.yaml"
        if task:
            cure = "give it inputs on which its output is more than rounding noise"
        raise KbError(
            f"the tolerances of {subject.kernel_folder.kernel.id} accept {verdict['accepted'][0]} "
            f"as an answer, so they decide nothing; {cure}"
        )
    fields = _make_check_fields(subject, verdict)
    if fields["status"] == "unloadable" and not subject.variant.is_compiled:
        fields["cure"] = f"import {subject.variant.source} by itself, and see that it loads"
    return Check(**subject.identity_fields, **fields, seconds=time.monotonic() - started)


def _make_job(
    subject: MeasurementSubject, build: Build, workloads: Sequence[str], timeout_s: float
) -> Job:
    return {
        "mode": "check",
        "target": subject.variant.target,
        "reference": make_reference_spec(subject.kernel_folder),
        "tolerances": dump_tolerances(subject.kernel_folder),
        "cases": _make_cases(subject.kernel_folder, workloads),
        "timeout_s": timeout_s,
        "partners": {"candidate": make_candidate_spec(subject, build)},
    }


def dump_tolerances(kernel_folder: KernelFolder) -> dict[str, Any]:
    """Return the kernel's own tolerances by type, for the judge."""
    return {name: limit.model_dump() for name, limit in kernel_folder.kernel.tolerances.items()}


def get_judge_result(subject: MeasurementSubject, run: JobRun) -> Job:
    """Return what the judge found.

    Raises:
        EnvironmentGapError: The machine cannot hold or share what the judge needs.
        KbError: The judge itself did not get to the end, which is the reference's fault.
    """
    if run.result is not None:
        if "unfit" in run.result:
            raise EnvironmentGapError(*run.result["unfit"].split("; ", 1))
        return run.result
    source = subject.kernel_folder
    last = (run.process.output.strip().splitlines() or ["no output"])[-1]
    if run.process.timed_out:
        last = f"it took longer than {run.process.seconds:.0f} s"
    where = f" on {run.last_step}" if run.last_step else ""
    if "out of memory" in last:
        gap = f"judging {source.kernel.id}{where} takes more GPU memory than there is: {last}"
        raise EnvironmentGapError(gap, "name a smaller --workload")
    raise KbError(
        f"the reference of {source.kernel.id} does not run{where}: {last}; "
        f"fix {source.folder / source.kernel.reference.file}"
    )


def find_cure(status: str, detail: str) -> str:
    """Return what to do about a candidate that did not last."""
    if status == "crashed" and "ended the process with status" in detail:
        return "a kernel must return to its caller; look for exit and abort"
    return _CURES[status]


def _make_cases(kernel_folder: KernelFolder, workloads: Sequence[str]) -> list[Job]:
    """Return odd shapes, then named workloads; the judge is tested on the named ones."""
    kernel = kernel_folder.kernel
    sizes = [(format_sizes(s), s, False) for s in kernel.check_workloads]
    sizes += [(n, kernel.workloads[n], True) for n in dict.fromkeys(workloads)]
    return [make_case_spec(kernel_folder, name, size, selftest) for name, size, selftest in sizes]


def _make_check_fields(subject: MeasurementSubject, result: Job) -> dict[str, Any]:
    checked = tuple(_make_checked_case(found) for found in result["cases"])
    common = {
        "cases": checked,
        "selftest": tuple(result["refused"]),
        "layers": tuple(result["layers"]),
    }
    lost = result["lost"]
    if lost:
        where = f" on {lost['where']}" if lost["where"] else ""
        detail = f"{lost['detail']}{where}"
        return {
            **common,
            "status": lost["status"],
            "detail": detail,
            "cure": find_cure(lost["status"], detail),
        }
    failed = [case for case in checked if case.status == "incorrect"]
    errors = [found["error"] for found in result["cases"] if found["error"]]
    compare = f"compare {subject.variant.source} with the reference on this workload"
    return {
        **common,
        "status": "kernel-error" if errors else "incorrect" if failed else "correct",
        "detail": f"{failed[0].workload}: {failed[0].why}" if failed else None,
        "cure": (_CURES["kernel-error"] if errors else compare) if failed else None,
    }


def _make_checked_case(case: Job) -> CheckedCase:
    why = case["error"] or case["tampered"]
    if why is None and case["nan_count"]:
        why = f"{case['nan_count']} elements are NaN or were never written"
    elif why is None and not case["correct"]:
        off, worst = 1 - case["matched_ratio"], case["max_abs_error"]
        by = "" if worst is None else f", by up to {worst:.3g}"
        why = f"{off:.1%} of the elements are wrong{by}"
    return CheckedCase(
        workload=case["name"],
        status="incorrect" if why else "correct",
        max_abs_error=case["max_abs_error"],
        reference_error=case["reference_error"],
        matched_ratio=case["matched_ratio"],
        nan_count=case["nan_count"],
        steady=case["steady"],
        why=why,
    )
