"""Times a variant against the fastest of its rivals, on one workload."""

from __future__ import annotations

import math
import os
import time
from typing import Any

from kernelkb.errors import BadValueError, KbError
from kernelkb.measure.bench_verdict import compute_bench_fields, is_below_floor
from kernelkb.measure.case_specs import (
    make_case_spec,
    make_reference_spec,
    make_tolerances,
    working_set_bytes,
)
from kernelkb.measure.check import find_cure, get_judge_result
from kernelkb.measure.machine.gpu_telemetry import GpuSampler, sample_gpu
from kernelkb.measure.machine.peaks import get_machine_peaks
from kernelkb.measure.process.worker_jobs import JobRun, run_job, scratch_folder, threads_env
from kernelkb.measure.runner_specs import make_candidate_spec, make_rival_specs, returns_outputs
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.judge_jobs import BenchJob, BenchJobResult, BenchTimes
from kernelkb.model.measurement import Bench, Build

TIMEOUT_S = 120.0
_BUDGET_S = 3.0
_MIN_PAIRS, _MAX_PAIRS = 15, 400
_BATCH_NS = {"cpu": 4e6, "cuda": 2e6}
"""Length of a batch to aim at: some hundred times the uncertainty of the harness's round trip."""
_MAX_SLOTS = 512
_ARENA_BYTES = {"cpu": 512 * 2**20, "cuda": 4 * 2**30}
"""Memory for the slots of all arrays."""

RivalVariant = tuple[MeasurementSubject, Build]
"""Another variant and its build."""


def bench(
    subject: MeasurementSubject,
    build: Build,
    *,
    workload: str,
    timeout_s: float = TIMEOUT_S,
    budget_s: float | None = None,
    rival_variant: RivalVariant | None = None,
    skip_other_rivals: bool = False,
) -> Bench:
    """Time a built variant against the fastest of its rivals.

    Candidate and rivals run in processes of their own; the judge's clock decides.

    Args:
        subject: What to time.
        build: Its build, which must not have failed.
        workload: One of the kernel's named workloads.
        timeout_s: For everything.
        budget_s: How long to time pairs of batches; None: ``KB_BUDGET``, or else 3 s.
        rival_variant: One more rival, which must be correct.
        skip_other_rivals: Make it the only one.

    Raises:
        KbError: The baselines failed, or used all the time.
        BadValueError: ``KB_BUDGET`` is not a number of seconds.
    """
    started = time.monotonic()
    budget_s = _default_budget_s() if budget_s is None else budget_s
    job = _make_job(subject, build, workload, budget_s, rival_variant, skip_other_rivals)
    env = threads_env(subject.machine.core_count)
    with scratch_folder() as folder, sample_gpu(subject.machine.target) as sampler:
        run = run_job(job, folder, timeout_s=timeout_s, env=env)
    result = _find_candidate_timeout(run, timeout_s) or get_judge_result(subject, run)
    if "times" in result:
        fields = _compute_verdict_fields(subject, workload, result["times"], sampler)
    else:
        fields = _describe_failure(result)
    fields["seconds"] = time.monotonic() - started
    return Bench(**subject.identity_fields, workload=workload, **fields)


def _compute_verdict_fields(
    subject: MeasurementSubject, workload: str, times: BenchTimes, sampler: GpuSampler
) -> dict[str, Any]:
    """Compute the verdict; if the kernel beats the roofline floor, re-measure the peaks first."""
    peaks = get_machine_peaks(subject.machine)
    fields = compute_bench_fields(subject, workload, times, peaks, sampler)
    if not is_below_floor(fields):
        return fields
    peaks = get_machine_peaks(subject.machine, remeasure=True)
    return compute_bench_fields(subject, workload, times, peaks, sampler)


def _find_candidate_timeout(run: JobRun[BenchJobResult], timeout_s: float) -> BenchJobResult | None:
    """Return the failure of a candidate that was running when the time was up.

    Raises:
        KbError: Another runner was.
    """
    if not run.process.timed_out:
        return None
    if run.last_step == "candidate":
        return {
            "runner_died": {
                "status": "timed-out",
                "detail": f"it did not finish within {timeout_s:g} s",
                "exit_status": None,
                "case": None,
            }
        }
    raise KbError(
        f"timing did not end within {timeout_s:g} s, while {run.last_step or 'its baselines'} ran; "
        f"allow more with --timeout, or name a smaller --workload"
    )


def _describe_failure(result: BenchJobResult) -> dict[str, Any]:
    """Return the fields of a Bench without times.

    Raises:
        KbError: Not the candidate failed but a baseline.
    """
    if "runner_died" in result:
        failure = result["runner_died"]
        return {"verdict": "invalid", "detail": failure["detail"], "cure": find_cure(failure)}
    if "incorrect_reason" in result:
        cure = "look for state that is kept between calls, and for work that is postponed"
        return {"verdict": "incorrect", "detail": result["incorrect_reason"], "cure": cure}
    raise KbError(
        f"a baseline failed: {result['baseline_error']}; measure again, or remove it from "
        f"kernel.yaml or --against"
    )


def _default_budget_s() -> float:
    text = os.environ.get("KB_BUDGET", "")
    try:
        budget_s = float(text or _BUDGET_S)
    except ValueError:
        budget_s = math.nan
    if not 0 < budget_s < math.inf:
        raise BadValueError(f"KB_BUDGET is {text!r}; set it to a number of seconds above 0")
    return budget_s


def _make_job(
    subject: MeasurementSubject,
    build: Build,
    workload: str,
    budget_s: float,
    rival_variant: RivalVariant | None,
    skip_other_rivals: bool,
) -> BenchJob:
    kernel_folder, target = subject.kernel_folder, subject.variant.target
    candidate = make_candidate_spec(subject, build)
    returns = returns_outputs(candidate["code"])
    runners = {"candidate": candidate}
    if not skip_other_rivals:
        runners |= make_rival_specs(subject, returns)
    if rival_variant:
        runners[f"variant {rival_variant[0].variant.id}"] = make_candidate_spec(*rival_variant)
    return {
        "mode": "bench",
        "target": target,
        "reference": make_reference_spec(kernel_folder),
        "tolerances": make_tolerances(kernel_folder),
        "cases": [
            make_case_spec(kernel_folder, workload, kernel_folder.kernel.workloads[workload])
        ],
        "runners": runners,
        "returns": returns,
        "working_set_bytes": working_set_bytes(kernel_folder, workload),
        "cache_bytes": subject.machine.cache_bytes,
        "budget_s": budget_s,
        "min_pairs": _MIN_PAIRS,
        "max_pairs": _MAX_PAIRS,
        "batch_ns": _BATCH_NS[target],
        "max_slots": _MAX_SLOTS,
        "arena_bytes": _ARENA_BYTES[target],
    }
