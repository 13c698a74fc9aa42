"""How fast is a variant, next to the best that a user would run instead, on one workload?"""

from __future__ import annotations

import time
from typing import Any

from kernelkb.errors import KbError
from kernelkb.measure.array_sizes import working_set_bytes
from kernelkb.measure.bench_verdict import compute_bench_fields, is_below_floor
from kernelkb.measure.check import dump_tolerances, find_cure, get_judge_result
from kernelkb.measure.machine.gpu_telemetry import GpuSampler, sample_gpu
from kernelkb.measure.machine.peaks import get_machine_peaks
from kernelkb.measure.process.worker_jobs import (
    Job,
    JobRun,
    make_case_spec,
    make_reference_spec,
    run_job,
    scratch_folder,
    threads_env,
)
from kernelkb.measure.runner_specs import make_candidate_spec, make_rival_specs, returns_outputs
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.measurement import Bench, Build

TIMEOUT_S = 120.0
BUDGET_S = 3.0
_MIN_PAIRS, _MAX_PAIRS = 15, 400
_BATCH_NS = {"cpu": 4e6, "cuda": 2e6}
_MAX_SLOTS = 512
_ARENA_BYTES = {"cpu": 512 * 2**20, "cuda": 4 * 2**30}


RivalVariant = tuple[MeasurementSubject, Build]
"""Another variant and its build."""


def bench(
    subject: MeasurementSubject,
    build: Build,
    *,
    workload: str,
    timeout_s: float = TIMEOUT_S,
    budget_s: float = BUDGET_S,
    rival_variant: RivalVariant | None = None,
    skip_other_rivals: bool = False,
) -> Bench:
    """Time a built variant against the fastest of its rivals.

    Candidate and rivals run in processes of their own, in turn, on memory that the judge owns;
    the judge's clock decides, and what was timed is judged again.

    Args:
        subject: What to time.
        build: Its build, which must not have failed.
        workload: One of the kernel's named workloads.
        timeout_s: For everything.
        budget_s: How long to take pairs of windows.
        rival_variant: One more rival; right, or it is none.
        skip_other_rivals: Make the incumbent the only one.

    Raises:
        KbError: The baselines did not last, or took all the time.
    """
    started = time.monotonic()
    job = _make_job(
        subject, build, workload, budget_s, rival_variant, skip_other_rivals=skip_other_rivals
    )
    env = threads_env(subject.machine.core_count)
    with scratch_folder() as folder, sample_gpu(subject.machine.target) as watch:
        ran = run_job(job, folder, timeout_s=timeout_s, env=env)
    raw = _find_candidate_timeout(ran, timeout_s) or get_judge_result(subject, ran)
    fields = _describe_failure(raw) or _compute_verdict_fields(subject, workload, raw, watch)
    seconds = time.monotonic() - started
    return Bench(**subject.identity_fields, workload=workload, **fields, seconds=seconds)


def _compute_verdict_fields(
    subject: MeasurementSubject, workload: str, raw: Job, sampler: GpuSampler
) -> dict[str, Any]:
    """Judge what was timed; whoever seems faster than the machine allows, by peaks of now."""
    fields = compute_bench_fields(
        subject, workload, raw, get_machine_peaks(subject.machine), sampler
    )
    if not is_below_floor(fields):
        return fields
    return compute_bench_fields(
        subject, workload, raw, get_machine_peaks(subject.machine, remeasure=True), sampler
    )


def _find_candidate_timeout(run: JobRun, timeout_s: float) -> Job | None:
    """Return the end of a candidate that took all the time.

    Raises:
        KbError: Somebody else did.
    """
    if not run.process.timed_out:
        return None
    if run.last_step == "candidate":
        detail = f"it did not finish within {timeout_s:g} s"
        return {"lost": {"status": "timed-out", "detail": detail}}
    whom = run.last_step or "its baselines"
    raise KbError(
        f"timing did not end within {timeout_s:g} s; it was the turn of {whom}; "
        f"allow more with --timeout, or name a smaller --workload"
    )


def _describe_failure(raw: Job) -> dict[str, Any] | None:
    """Return what a Bench says when there are no times to speak of.

    Raises:
        KbError: It was not the candidate that ended it.
    """
    lost = raw.get("lost")
    if lost:
        cure = find_cure(lost["status"], lost["detail"])
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


def _make_job(
    subject: MeasurementSubject,
    build: Build,
    workload: str,
    budget_s: float,
    rival_variant: RivalVariant | None,
    *,
    skip_other_rivals: bool,
) -> Job:
    source, target = subject.kernel_folder, subject.variant.target
    candidate = make_candidate_spec(subject, build)
    returning = returns_outputs(candidate["what"])
    partners = {
        "candidate": candidate,
        **({} if skip_other_rivals else make_rival_specs(subject, returning)),
    }
    if rival_variant:
        partners[f"variant {rival_variant[0].variant.id}"] = make_candidate_spec(*rival_variant)
    return {
        "mode": "time",
        "target": target,
        "reference": make_reference_spec(source),
        "tolerances": dump_tolerances(source),
        "cases": [make_case_spec(source, workload, source.kernel.workloads[workload])],
        "partners": partners,
        "returns": returning,
        "working_set_bytes": working_set_bytes(source, workload),
        "cache_bytes": subject.machine.cache_bytes,
        "budget_s": budget_s,
        "min_pairs": _MIN_PAIRS,
        "max_pairs": _MAX_PAIRS,
        "window_ns": _BATCH_NS[target],
        "most_slots": _MAX_SLOTS,
        "arena_bytes": _ARENA_BYTES[target],
    }
