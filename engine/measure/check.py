"""Is a variant right? It runs in one child, behind walls; another child judges what it wrote."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kernelkb.errors import EnvironmentGapError, KbError
from kernelkb.loading.kernels import KernelFolder
from kernelkb.measure.process.worker_jobs import (
    Job,
    JobEnd,
    case_of,
    label,
    reference_of,
    run_job,
    scratch_folder,
    threads_env,
)
from kernelkb.measure.runner_specs import candidate_job
from kernelkb.measure.subject import Subject
from kernelkb.model.measurement import Build, Check, CheckedCase

TIMEOUT_S = 60.0
_JUDGE_S = 300.0

_CURES = {
    "timed-out": "look for an endless loop, or allow more with --timeout",
    "out-of-memory": "try a smaller workload; look for memory that grows with every call",
    "limit-exceeded": "a kernel computes; it starts no programs and writes no files",
    "unloadable": 'the entry point must be extern "C" and named as in kernel.yaml',
    "crashed": "run kb bench --sanitize, or -fsanitize=address on a CPU; check the bounds",
    "kernel-error": "look up what the entry point reports, and on which workload",
}


def check(
    subject: Subject,
    built: Build,
    *,
    workloads: Sequence[str],
    timeout_s: float = TIMEOUT_S,
) -> Check:
    """Check a built variant on fresh inputs, on odd shapes and on named workloads.

    Args:
        subject: What to check.
        built: Its build, which must not have failed.
        workloads: Named workloads besides the kernel's ``check_workloads``.
        timeout_s: For the candidate, all cases together.

    Raises:
        KbError: The tolerance accepts an output that is wrong on purpose, or the reference
            itself does not run.
    """
    started = time.monotonic()
    job = _job(subject, built, workloads, timeout_s)
    with scratch_folder() as folder:
        env = threads_env(subject.machine.core_count)
        ran = run_job(job, folder, timeout_s=timeout_s + _JUDGE_S, env=env)
    verdict = finished(subject, ran)
    if verdict["accepted"]:
        task = subject.source.kernel.reference.module is not None
        cure = "tighten atol in its kernel.yaml"
        if task:
            cure = "give it inputs on which its output is more than rounding noise"
        raise KbError(
            f"the tolerances of {subject.source.kernel.id} accept {verdict['accepted'][0]} "
            f"as an answer, so they decide nothing; {cure}"
        )
    fields = _judged(subject, verdict)
    if fields["status"] == "unloadable" and not subject.variant.compiled:
        fields["cure"] = f"import {subject.variant.source} by itself, and see that it loads"
    return Check(**subject.names, **fields, seconds=time.monotonic() - started)


def _job(subject: Subject, built: Build, workloads: Sequence[str], timeout_s: float) -> Job:
    return {
        "mode": "check",
        "target": subject.variant.target,
        "reference": reference_of(subject.source),
        "tolerances": tolerances_of(subject.source),
        "cases": _cases(subject.source, workloads),
        "timeout_s": timeout_s,
        "partners": {"candidate": candidate_job(subject, built)},
    }


def tolerances_of(source: KernelFolder) -> dict[str, Any]:
    """Return the kernel's own tolerances by type, for the judge."""
    return {name: limit.model_dump() for name, limit in source.kernel.tolerances.items()}


def finished(subject: Subject, ran: JobEnd) -> Job:
    """Return what the judge found.

    Raises:
        EnvironmentGapError: The machine cannot hold or share what the judge needs.
        KbError: The judge itself did not get to the end, which is the reference's fault.
    """
    if ran.result is not None:
        if "unfit" in ran.result:
            raise EnvironmentGapError(*ran.result["unfit"].split("; ", 1))
        return ran.result
    source = subject.source
    last = (ran.end.output.strip().splitlines() or ["no output"])[-1]
    if ran.end.timed_out:
        last = f"it took longer than {ran.end.seconds:.0f} s"
    where = f" on {ran.progress}" if ran.progress else ""
    if "out of memory" in last:
        gap = f"judging {source.kernel.id}{where} takes more GPU memory than there is: {last}"
        raise EnvironmentGapError(gap, "name a smaller --workload")
    raise KbError(
        f"the reference of {source.kernel.id} does not run{where}: {last}; "
        f"fix {source.folder / source.kernel.reference.file}"
    )


def cure_of(status: str, detail: str) -> str:
    """Return what to do about a candidate that did not last."""
    if status == "crashed" and "ended the process with status" in detail:
        return "a kernel must return to its caller; look for exit and abort"
    return _CURES[status]


def _cases(source: KernelFolder, workloads: Sequence[str]) -> list[Job]:
    """Return odd shapes, then named workloads; the judge is tested on the named ones."""
    kernel = source.kernel
    sizes = [(label(s), s, False) for s in kernel.check_workloads]
    sizes += [(n, kernel.workloads[n], True) for n in dict.fromkeys(workloads)]
    return [case_of(source, name, size, selftest) for name, size, selftest in sizes]


def _judged(subject: Subject, verdict: Job) -> dict[str, Any]:
    checked = tuple(_case(found) for found in verdict["cases"])
    common = {
        "cases": checked,
        "selftest": tuple(verdict["refused"]),
        "layers": tuple(verdict["layers"]),
    }
    lost = verdict["lost"]
    if lost:
        where = f" on {lost['where']}" if lost["where"] else ""
        detail = f"{lost['detail']}{where}"
        return {
            **common,
            "status": lost["status"],
            "detail": detail,
            "cure": cure_of(lost["status"], detail),
        }
    failed = [case for case in checked if case.status == "incorrect"]
    errors = [found["error"] for found in verdict["cases"] if found["error"]]
    compare = f"compare {subject.variant.source} with the reference on this workload"
    return {
        **common,
        "status": "kernel-error" if errors else "incorrect" if failed else "correct",
        "detail": f"{failed[0].workload}: {failed[0].why}" if failed else None,
        "cure": (_CURES["kernel-error"] if errors else compare) if failed else None,
    }


def _case(found: Job) -> CheckedCase:
    why = found["error"] or found["tampered"]
    if why is None and found["nan_count"]:
        why = f"{found['nan_count']} elements are NaN or were never written"
    elif why is None and not found["correct"]:
        off, worst = 1 - found["matched_ratio"], found["max_abs_error"]
        by = "" if worst is None else f", by up to {worst:.3g}"
        why = f"{off:.1%} of the elements are wrong{by}"
    return CheckedCase(
        workload=found["name"],
        status="incorrect" if why else "correct",
        max_abs_error=found["max_abs_error"],
        reference_error=found["reference_error"],
        matched_ratio=found["matched_ratio"],
        nan_count=found["nan_count"],
        steady=found["steady"],
        why=why,
    )
