"""Times a variant against the fastest of its rivals, on one workload; says what that took."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from kernelkb.errors import BadValueError, KbError
from kernelkb.measure.bench.bench_verdict import compute_bench_fields, is_below_floor
from kernelkb.measure.check.check import find_cure, get_judge_result, require_gpu_memory
from kernelkb.measure.job_specs import (
    describe_reference,
    list_distributions,
    make_case_spec,
    make_judged_code,
    make_tolerances,
    returns_outputs,
    working_set_bytes,
)
from kernelkb.measure.machine.host import (
    describe_low_memory,
    find_free_bytes,
    read_host_memory,
)
from kernelkb.measure.machine.nvidia_driver import GpuSample, GpuSampler, sample_gpu
from kernelkb.measure.machine.torch_info import get_machine_peaks
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.process.worker_jobs import (
    JobRun,
    StartedJob,
    report_where_it_ended,
    start_job,
    threads_env,
)
from kernelkb.measure.subject import DEFAULT_OPTIONS, BenchOptions, MeasurementSubject
from kernelkb.measure.worker.shared.messages.jobs import (
    BenchJob,
    BenchJobResult,
    BenchTimes,
    EnergyStretch,
)
from kernelkb.model.base import Target
from kernelkb.model.records.measurement import Bench, Build, Machine, ResourceUse
from kernelkb.units import format_size

MIN_CORES_AHEAD = 4
"""With fewer, processes that start beside a check delay it by as much as they gain."""
_BUDGET_S = 3.0
_MIN_PAIRS, _MAX_PAIRS = 15, 400
_BATCH_NS = {"cpu": 4e6, "cuda": 2e6}
"""Length of a batch to aim at: some hundred times the uncertainty of the harness's round trip."""
_MAX_SLOTS = 512
_ARENA_BYTES = {"cpu": 512 * 2**20, "cuda": 4 * 2**30}
"""Memory for the slots of all arrays."""
_WARNING_PERCENT = 10
"""How much more memory than the baseline's, in percent of its peak, the verdict speaks of."""
_MIN_PEAK_EXCESS_BYTES = {"cpu": 2**20, "cuda": 32 * 2**20}
"""Smaller differences say nothing: on a CPU single pages, on a GPU the blocks of torch's allocator,
2 to 20 MiB for each of several sizes."""
_MIN_HELD_EXCESS_BYTES = 32 * 2**20
"""The same for what a process keeps, in which imported modules and libraries count."""
_RAMP_S = 0.1
"""Start of a stretch that does not count: power and counter lag behind."""
_MIN_COUNTER_SPAN_S = 0.3
_MIN_COUNTER_CHANGES = 3
"""Changes of the counter between which energy is computed: its own step is then below a third."""
_DIGITS = 3


def bench(
    subject: MeasurementSubject,
    build: Build,
    workload: str,
    options: BenchOptions = DEFAULT_OPTIONS,
    free_bytes: int | None = None,
) -> Bench:
    """Time a built variant against the fastest of its rivals, each in a process of its own.

    Args:
        subject: What to time.
        build: Its build, which must not have failed.
        workload: One of the kernel's named workloads.
        options: How; its rival must be correct.
        free_bytes: For the judge's arrays; None: all that is free.

    Raises:
        KbError: The baselines failed or used all the time, or ``KB_BUDGET`` is no number.
    """
    job = make_job(subject, build, workload, options)
    if free_bytes is not None:
        job["free_bytes"] = free_bytes
    with start_bench(subject, workload, job) as started:
        return started.run(options.timeout_s)


def starts_ahead(machine: Machine) -> bool:
    """Return whether the processes of a bench start beside those of the check before it."""
    return machine.core_count >= MIN_CORES_AHEAD


class StartedBench:
    """A bench whose processes were started; they load nothing of the candidate before ``run``."""

    def __init__(
        self,
        subject: MeasurementSubject,
        workload: str,
        job: BenchJob,
        judge: StartedJob[BenchJobResult],
    ) -> None:
        self._subject, self._workload, self._job, self._judge = subject, workload, job, judge

    def wait_until_ready(self) -> None:
        """Wait until the judge and all runners could start, or failed to.

        Raises:
            OperationCancelled: The event given to ``cancel_on`` was set.
        """
        self._judge.wait_until_ready()

    def run(self, timeout_s: float) -> Bench:
        """Time the candidate; raises like ``bench``.

        Args:
            timeout_s: For everything from now on; so are the seconds of the result.
        """
        started, subject = time.monotonic(), self._subject
        low_memory = describe_low_memory(read_host_memory())
        sampling = sample_gpu(subject.machine.target)
        with sampling as sampler, report_where_it_ended(self._judge):
            run = self._judge.finish(timeout_s)
        result = _find_candidate_timeout(run, timeout_s) or get_judge_result(subject, run)
        if times := result.get("times"):
            fields = _compute_fields(subject, self._job, run.process.seconds, times, sampler)
            told = describe_shortcuts(times, fields["speedup"], subject.variant.target)
            about = describe_reference(subject.kernel_folder, subject.variant.target)
            fields["warnings"] = (*fields["warnings"], *about, *told, *low_memory)
        else:
            fields = _describe_failure(result, run.known)
            fields["pair_count"] = run.done_count
        fields["seconds"] = time.monotonic() - started
        return Bench(**subject.identity_fields, workload=self._workload, **fields)


@contextmanager
def start_bench(
    subject: MeasurementSubject, workload: str, job: BenchJob
) -> Iterator[StartedBench]:
    """Start the processes of a bench, which is to run in the block; they are ended after it.

    A check may run before ``run``: nothing is timed meanwhile, and its processes are others.

    Args:
        subject: What to time.
        workload: One of the kernel's named workloads.
        job: Of ``make_job``.
    """
    env = threads_env(subject.machine.core_count)
    with scratch_folder() as folder, start_job(job, folder, env=env) as judge:
        yield StartedBench(subject, workload, job, judge)


def _compute_fields(
    subject: MeasurementSubject,
    job: BenchJob,
    judge_s: float,
    times: BenchTimes,
    sampler: GpuSampler,
) -> dict[str, Any]:
    """Compute the verdict; if the kernel beats the roofline floor, re-measure the peaks first."""
    workload = job["cases"][0]["name"]
    peaks = get_machine_peaks(subject.machine)
    fields = compute_bench_fields(subject, workload, times, peaks, sampler)
    if is_below_floor(fields):
        peaks = get_machine_peaks(subject.machine, remeasure=True)
        fields = compute_bench_fields(subject, workload, times, peaks, sampler)
    return add_resource_use(fields, job, times, sampler, judge_s)


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
        f"timing did not end within {timeout_s:g} s, while {run.last_step or 'its baselines'} ran"
        f"{run.known}; allow more with --timeout, or name a smaller --workload"
    )


def _describe_failure(result: BenchJobResult, known: str) -> dict[str, Any]:
    """Return the fields of a Bench without times.

    Args:
        result: Of the judge.
        known: What was done until then.

    Raises:
        EnvironmentGapError: The candidate could not allocate memory of the GPU.
        KbError: Not the candidate failed but a baseline.
    """
    if "runner_died" in result:
        failure = result["runner_died"]
        require_gpu_memory(failure)
        detail = f"{failure['detail']}{known}"
        return {"verdict": "invalid", "detail": detail, "cure": find_cure(failure)}
    if "incorrect_reason" in result:
        cure = "look for state that is kept between calls, and for work that is postponed"
        return {"verdict": "incorrect", "detail": result["incorrect_reason"], "cure": cure}
    if "baseline_killed" in result:
        return {
            "verdict": "invalid",
            "detail": "a baseline was killed while the candidate was loaded; "
            + result["baseline_killed"]
            + known,
            "cure": "time the baseline as a variant, alone: if it dies there too, remove it from "
            "kernel.yaml; free memory if there is little",
        }
    raise KbError(
        f"a baseline failed: {result['baseline_error']}{known}; measure again, or remove it from "
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


def make_job(
    subject: MeasurementSubject, build: Build, workload: str, options: BenchOptions
) -> BenchJob:
    """Return what a judge is to do; arguments and errors as of ``bench``."""
    budget_s = _default_budget_s() if options.budget_s is None else options.budget_s
    kernel_folder, target = subject.kernel_folder, subject.variant.target
    code = make_judged_code(subject, build, options)
    case = make_case_spec(kernel_folder, workload, subject.kernel.workloads[workload])
    case["distributions"] = list_distributions(subject.kernel)
    return {
        "mode": "bench",
        "target": target,
        "reference": code.reference,
        "tolerances": make_tolerances(kernel_folder),
        "cases": [case],
        "runners": code.runners,
        "reduced_rivals": code.reduced_rivals,
        "returns": returns_outputs(code.runners["candidate"]["code"]),
        "working_set_bytes": working_set_bytes(kernel_folder, workload),
        "cache_bytes": subject.machine.cache_bytes,
        "budget_s": budget_s,
        "min_pairs": _MIN_PAIRS,
        "max_pairs": _MAX_PAIRS,
        "batch_ns": _BATCH_NS[target],
        "max_slots": _MAX_SLOTS,
        "arena_bytes": _ARENA_BYTES[target],
        "free_bytes": find_free_bytes(target),
    }


def describe_shortcuts(
    bench_times: BenchTimes, speedup: float | None, target: Target
) -> Iterator[str]:
    """Yield a sentence each on rivals that were left out and on timing that ended early.

    Args:
        bench_times: Of the bench.
        speedup: Over its baseline.
        target: ``cpu`` or ``cuda``; only a GPU's energy is measured.
    """
    rival = bench_times["rival_name"]
    if bench_times["left_out"] and speedup:
        yield (
            f"{', '.join(bench_times['left_out'])} left out: it takes {1 / speedup:.3g} times as "
            f"long as {rival}, so it is slower than the fastest baseline by at least that"
        )
    if bench_times["is_plainly_slower"]:
        energy = "; energy was not measured" if target == "cuda" else ""
        yield (
            f"timing ended after {len(bench_times['candidate_batches'])} pairs, since it took more "
            f"than twice as long as {rival} in nearly all of them{energy}"
        )


def make_resource_use(
    bench_times: BenchTimes,
    working_set_bytes: int,
    samples: Sequence[GpuSample],
    judge_s: float,
) -> ResourceUse:
    """Return what the judge measured besides times.

    Args:
        bench_times: As the judge returned them.
        working_set_bytes: All inputs and outputs of one call.
        samples: Of the GPU's energy counter.
        judge_s: What the judge's process took altogether.
    """
    candidate, rival = bench_times["candidate_memory"], bench_times["rival_memory"]
    steps = bench_times["step_seconds"]
    start_s = max(0.0, judge_s - sum(steps.values()))  # starting processes, importing torch
    return ResourceUse(
        peak_bytes=_add_bytes(working_set_bytes, candidate["scratch_bytes"]),
        baseline_peak_bytes=_add_bytes(working_set_bytes, rival["scratch_bytes"]),
        held_bytes=candidate["held_bytes"],
        baseline_held_bytes=rival["held_bytes"],
        joules=compute_joules_per_call(samples, bench_times["candidate_energy"]),
        baseline_joules=compute_joules_per_call(samples, bench_times["rival_energy"]),
        step_seconds={
            name: round(seconds, _DIGITS) for name, seconds in ({"start": start_s} | steps).items()
        },
    )


def _add_bytes(working_set_bytes: int, scratch_bytes: int | None) -> int | None:
    return None if scratch_bytes is None else working_set_bytes + scratch_bytes


def compute_joules_per_call(
    samples: Sequence[GpuSample], stretch: EnergyStretch | None
) -> float | None:
    """Return the energy of one call from a GPU's energy counter; None where it cannot be known.

    The counter changes every 20 to 100 ms only. So the power between the first and the last of its
    changes within the stretch is taken for all of it.

    Args:
        samples: Of the counter, in the order of time, every 20 ms.
        stretch: Calls in a row.
    """
    if stretch is None:
        return None
    inside = [s for s in samples if stretch["start_s"] + _RAMP_S <= s.time_s <= stretch["end_s"]]
    changes = [
        sample for before, sample in pairwise(inside) if sample.energy_j > before.energy_j > 0
    ]
    if len(changes) < _MIN_COUNTER_CHANGES:
        return None
    first, last = changes[0], changes[-1]
    if last.time_s - first.time_s < _MIN_COUNTER_SPAN_S:
        return None
    watts = (last.energy_j - first.energy_j) / (last.time_s - first.time_s)
    return watts * (stretch["end_s"] - stretch["start_s"]) / stretch["calls"]


def describe_memory_excess(use: ResourceUse, target: Target) -> Iterator[str]:
    """Yield a warning where the candidate needs at least 1.1 times the baseline's memory.

    Args:
        use: Of one bench.
        target: ``cpu`` or ``cuda``; differences below its measurement uncertainty say nothing.
    """
    peak, other_peak = use.peak_bytes, use.baseline_peak_bytes
    if peak is None and other_peak is not None:
        yield "its peak memory is not known: its process does not let its parent reset the mark"
    if peak is None or other_peak is None:
        return
    least = _WARNING_PERCENT * other_peak / 100
    if peak - other_peak >= max(least, _MIN_PEAK_EXCESS_BYTES[target]):
        yield (
            f"a call takes {format_size(peak)} of memory at its peak, {peak / other_peak:.3g} "
            f"times the baseline's {format_size(other_peak)}"
        )
    held, other_held = use.held_bytes, use.baseline_held_bytes
    if held is None or other_held is None:
        return
    if held - other_held >= max(least, _MIN_HELD_EXCESS_BYTES):
        yield (
            f"its process keeps {format_size(held)} of memory between calls, the baseline's "
            f"{format_size(other_held)}"
        )


def add_resource_use(
    fields: dict[str, Any],
    job: BenchJob,
    bench_times: BenchTimes,
    sampler: GpuSampler,
    judge_s: float,
) -> dict[str, Any]:
    """Return the fields of a Bench with its use of resources and the warnings about it.

    Args:
        fields: Those of ``compute_bench_fields``.
        job: What was measured.
        bench_times: As the judge returned them.
        sampler: Has samples of the GPU's energy counter.
        judge_s: What the judge's process took altogether.
    """
    use = make_resource_use(bench_times, job["working_set_bytes"], sampler.samples, judge_s)
    warnings = (*fields["warnings"], *describe_memory_excess(use, job["target"]))
    return {**fields, "resource_use": use, "warnings": warnings}
