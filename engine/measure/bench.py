"""How fast is a variant, next to the best that a user would run instead, on one workload?"""

from __future__ import annotations

import time
from typing import Any

from kernelkb.errors import KbError
from kernelkb.measure.array_sizes import working_set_bytes
from kernelkb.measure.bench_verdict import beats_floor, bench_fields
from kernelkb.measure.check import cure_of, finished, tolerances_of
from kernelkb.measure.machine.gpu_telemetry import Watch, watched
from kernelkb.measure.machine.peaks import machine_peaks
from kernelkb.measure.process.worker_jobs import (
    Job,
    JobEnd,
    case_of,
    reference_of,
    run_job,
    scratch_folder,
    threads_env,
)
from kernelkb.measure.runner_specs import candidate_job, returns, rival_jobs
from kernelkb.measure.subject import Subject
from kernelkb.model.measurement import Bench, Build

TIMEOUT_S = 120.0
BUDGET_S = 3.0
_FEWEST_PAIRS, _MOST_PAIRS = 15, 400
_WINDOW_NS = {"cpu": 4e6, "cuda": 2e6}
_MOST_SLOTS = 512
_ARENA_BYTES = {"cpu": 512 * 2**20, "cuda": 4 * 2**30}


Incumbent = tuple[Subject, Build]
"""Another variant and its build."""


def bench(
    subject: Subject,
    built: Build,
    *,
    workload: str,
    timeout_s: float = TIMEOUT_S,
    budget_s: float = BUDGET_S,
    incumbent: Incumbent | None = None,
    alone: bool = False,
) -> Bench:
    """Time a built variant against the fastest of its rivals.

    Candidate and rivals run in processes of their own, in turn, on memory that the judge owns;
    the judge's clock decides, and what was timed is judged again.

    Args:
        subject: What to time.
        built: Its build, which must not have failed.
        workload: One of the kernel's named workloads.
        timeout_s: For everything.
        budget_s: How long to take pairs of windows.
        incumbent: One more rival; right, or it is none.
        alone: Make the incumbent the only one.

    Raises:
        KbError: The baselines did not last, or took all the time.
    """
    started = time.monotonic()
    job = _job(subject, built, workload, budget_s, incumbent, alone=alone)
    env = threads_env(subject.machine.core_count)
    with scratch_folder() as folder, watched(subject.machine.target) as watch:
        ran = run_job(job, folder, timeout_s=timeout_s, env=env)
    raw = _late(ran, timeout_s) or finished(subject, ran)
    fields = _ended(raw) or _judged(subject, workload, raw, watch)
    seconds = time.monotonic() - started
    return Bench(**subject.names, workload=workload, **fields, seconds=seconds)


def _judged(subject: Subject, workload: str, raw: Job, watch: Watch) -> dict[str, Any]:
    """Judge what was timed; whoever seems faster than the machine allows, by peaks of now."""
    fields = bench_fields(subject, workload, raw, machine_peaks(subject.machine), watch)
    if not beats_floor(fields):
        return fields
    return bench_fields(subject, workload, raw, machine_peaks(subject.machine, again=True), watch)


def _late(ran: JobEnd, timeout_s: float) -> Job | None:
    """Return the end of a candidate that took all the time.

    Raises:
        KbError: Somebody else did.
    """
    if not ran.end.timed_out:
        return None
    if ran.progress == "candidate":
        detail = f"it did not finish within {timeout_s:g} s"
        return {"lost": {"status": "timed-out", "detail": detail}}
    whom = ran.progress or "its baselines"
    raise KbError(
        f"timing did not end within {timeout_s:g} s; it was the turn of {whom}; "
        f"allow more with --timeout, or name a smaller --workload"
    )


def _ended(raw: Job) -> dict[str, Any] | None:
    """Return what a Bench says when there are no times to speak of.

    Raises:
        KbError: It was not the candidate that ended it.
    """
    lost = raw.get("lost")
    if lost:
        cure = cure_of(lost["status"], lost["detail"])
        return {"verdict": "invalid", "detail": lost["detail"], "cure": cure}
    if raw.get("baseline"):
        raise KbError(
            f"a baseline did not last: {raw['baseline']}; measure again, or take it out of "
            f"kernel.yaml or --against"
        )
    if raw.get("wrong"):
        cure = "look for state that is kept between calls, and for work that is put off"
        return {"verdict": "incorrect", "detail": raw["wrong"], "cure": cure}
    return None


def _job(
    subject: Subject,
    built: Build,
    workload: str,
    budget_s: float,
    incumbent: Incumbent | None,
    *,
    alone: bool,
) -> Job:
    source, target = subject.source, subject.variant.target
    candidate = candidate_job(subject, built)
    returning = returns(candidate["what"])
    partners = {"candidate": candidate, **({} if alone else rival_jobs(subject, returning))}
    if incumbent:
        partners[f"variant {incumbent[0].variant.id}"] = candidate_job(*incumbent)
    return {
        "mode": "time",
        "target": target,
        "reference": reference_of(source),
        "tolerances": tolerances_of(source),
        "cases": [case_of(source, workload, source.kernel.workloads[workload])],
        "partners": partners,
        "returns": returning,
        "working_set_bytes": working_set_bytes(source, workload),
        "cache_bytes": subject.machine.cache_bytes,
        "budget_s": budget_s,
        "min_pairs": _FEWEST_PAIRS,
        "max_pairs": _MOST_PAIRS,
        "window_ns": _WINDOW_NS[target],
        "most_slots": _MOST_SLOTS,
        "arena_bytes": _ARENA_BYTES[target],
    }
