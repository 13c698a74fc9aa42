"""Is a variant right? Run it in one child, judge its outputs in another."""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.errors import KbError
from engine.loading.kernels import KernelFolder
from engine.measure.jobs import (
    Job,
    JobEnd,
    case_of,
    label,
    reference_of,
    run_job,
    scratch_folder,
    threads_env,
)
from engine.measure.subject import Subject
from engine.model.kernel import Variant
from engine.model.measurement import Build, Check, CheckedCase, RunStatus

TIMEOUT_S = 60.0


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
    cases = _cases(subject.source, workloads)
    with scratch_folder() as folder:
        job = {
            "mode": "execute",
            "target": subject.variant.target,
            "library": built.library,
            "entry": subject.source.kernel.entry,
            "cases": cases,
        }
        env = threads_env(subject.machine.core_count)
        ran = run_job(job, folder, timeout_s=timeout_s, env=env)
        fields = _unfinished(ran, timeout_s)
        if ran.result is not None:
            verdict = judge(subject, cases, folder)
            fields = _judged(subject.variant, cases, ran.result, verdict)
    return Check(**subject.names, **fields, seconds=time.monotonic() - started)


def _cases(source: KernelFolder, workloads: Sequence[str]) -> list[Job]:
    """Return odd shapes, then named workloads; the judge is tested on the named ones."""
    kernel = source.kernel
    sizes = [(label(s), s, False) for s in kernel.check_workloads]
    sizes += [(n, kernel.workloads[n], True) for n in dict.fromkeys(workloads)]
    seed = secrets.randbits(31)
    return [case_of(source, n, s, seed + at, test) for at, (n, s, test) in enumerate(sizes)]


def _unfinished(ran: JobEnd, timeout_s: float) -> dict[str, Any]:
    status, detail, cure = failure(ran, timeout_s)
    return {"status": status, "detail": detail, "cure": cure}


def failure(ran: JobEnd, timeout_s: float) -> tuple[RunStatus, str, str]:
    """Say how a child that did not finish ended: status, what happened, the cure."""
    where = f" on {ran.progress}" if ran.progress else ""
    text = ran.end.output
    if ran.end.timed_out:
        what = f"it did not finish within {timeout_s:g} s{where}"
        return "timed-out", what, "look for an endless loop, or allow more with --timeout"
    if ran.end.returncode < 0:
        name = signal.Signals(-ran.end.returncode).name
        if name == "SIGKILL":
            return "out-of-memory", f"the system killed it{where}", "try a smaller workload"
        cure = "run compute-sanitizer or -fsanitize=address on this workload; check the bounds"
        return "crashed", f"it died of {name}{where}", cure
    if "Traceback" not in text:
        what = f"it ended the process with status {ran.end.returncode}{where}"
        return "crashed", what, "a kernel must return to its caller; look for exit and abort"
    last = (text.strip().splitlines() or ["no output"])[-1]
    if "out of memory" in text or "MemoryError" in text or "can't allocate memory" in text:
        return "out-of-memory", f"{last}{where}", "try a smaller workload"
    if "undefined symbol" in text or "cannot open shared object" in text:
        cure = 'the entry point must be extern "C" and named as in kernel.yaml'
        return "unloadable", last, cure
    if "CUDA error" in text or "AcceleratorError" in text:
        found = [line for line in text.splitlines() if "CUDA error" in line]
        what = f"{(found or [last])[0]}{where}"
        return "crashed", what, "run compute-sanitizer on this workload; check the bounds"
    return "crashed", f"{last}{where}", "see the message; the worker itself may be at fault"


def judge(subject: Subject, cases: list[Job], folder: Path) -> Job:
    """Compare the outputs that lie in ``folder`` with the reference, in a child of its own.

    Raises:
        KbError: The tolerance or the reference is at fault.
    """
    source = subject.source
    job = {
        "mode": "judge",
        "target": subject.variant.target,
        "reference": reference_of(source),
        "tolerances": {n: t.model_dump() for n, t in source.kernel.tolerances.items()},
        "cases": cases,
    }
    judged = run_job(job, folder, timeout_s=300.0, env=threads_env(subject.machine.core_count))
    if judged.result is None:
        last = (judged.end.output.strip().splitlines() or ["no output"])[-1]
        raise KbError(
            f"the reference of {source.kernel.id} does not run: {last}; "
            f"fix {source.folder / source.kernel.reference.file}"
        )
    if judged.result["accepted"]:
        raise KbError(
            f"the tolerances of {source.kernel.id} accept {judged.result['accepted'][0]} "
            f"as an answer, so they decide nothing; tighten atol in its kernel.yaml"
        )
    return judged.result


def _judged(variant: Variant, cases: list[Job], ran: Job, verdict: Job) -> dict[str, Any]:
    checked = tuple(
        _case(case, end, found)
        for case, end, found in zip(cases, ran["cases"], verdict["cases"], strict=True)
    )
    failed = [case for case in checked if case.status == "incorrect"]
    errors = [end["error"] for end in ran["cases"] if end["error"]]
    return {
        "status": "kernel-error" if errors else "incorrect" if failed else "correct",
        "cases": checked,
        "selftest": tuple(verdict["refused"]),
        "detail": f"{failed[0].workload}: {failed[0].why}" if failed else None,
        "cure": f"compare {variant.source} with the reference on this workload" if failed else None,
    }


def _case(case: Job, end: Job, found: Job) -> CheckedCase:
    why = end["error"]
    if end["mutated"]:
        why = f"it changed its input {end['mutated'][0]}"
    elif why is None and found["nan_count"]:
        why = f"{found['nan_count']} elements are NaN or were never written"
    elif why is None and not found["correct"]:
        off = 1 - found["matched_ratio"]
        why = f"{off:.1%} of the elements are wrong, by up to {found['max_abs_error']:.3g}"
    return CheckedCase(
        workload=case["name"],
        seed=case["seed"],
        status="incorrect" if why else "correct",
        max_abs_error=found["max_abs_error"],
        reference_error=found["reference_error"],
        matched_ratio=found["matched_ratio"],
        nan_count=found["nan_count"],
        why=why,
    )
