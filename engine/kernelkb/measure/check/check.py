"""Checks a variant: candidate in a sandboxed process, comparison with the reference in another."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kernelkb.errors import EnvironmentGapError, KbError
from kernelkb.loading.kernels import KernelFolder
from kernelkb.measure.check.hidden_cases import add_distributions, make_hidden_size_cases
from kernelkb.measure.job_specs import (
    describe_reference,
    find_reference_variant,
    format_sizes,
    make_candidate_spec,
    make_case_spec,
    make_input_spec,
    make_output_spec,
    make_tolerances,
    prepare_reference,
    share_module_seed,
)
from kernelkb.measure.machine.host import find_free_bytes
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.process.worker_jobs import JobRun, start_job, threads_env
from kernelkb.measure.subject import DEFAULT_OPTIONS, MeasurementSubject
from kernelkb.measure.worker.shared.messages.jobs import (
    CaseResult,
    CheckJob,
    CheckReport,
    JudgeResult,
)
from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    Reference,
    RunnerFailure,
    RunnerStatus,
)
from kernelkb.model.kernels.kernel import ExtraCase
from kernelkb.model.records.measurement import Build, Check, CheckedCase

"""For the candidate, all cases together."""
_JUDGE_TIMEOUT_S = 300.0
"""For the judge besides: inputs, references and comparisons."""

_FEW = 0.0005
"""A share of elements below it has no percentage of one digit."""

_CURES: dict[RunnerStatus, str] = {
    "timed-out": "look for an endless loop, or allow more with --timeout",
    "out-of-memory": "try a smaller workload; look for memory that grows with every call",
    "limit-exceeded": "a kernel computes; it starts no programs and writes no files",
    "unloadable": 'the entry point must be extern "C" and named as in kernel.yaml',
    "crashed": "run kb bench --sanitize, or -fsanitize=address on a CPU; check the bounds",
    "kernel-error": "look up what the entry point reports, and on which workload",
}

_JudgeResultT = TypeVar("_JudgeResultT", bound=JudgeResult)


def go_on() -> None:
    """Wait for nothing."""


def check(
    subject: MeasurementSubject,
    build: Build,
    *,
    workloads: Sequence[str],
    timeout_s: float = DEFAULT_OPTIONS.timeout_s,
    before_start: Callable[[], None] = go_on,
    free_bytes: int | None = None,
) -> Check:
    """Check a built variant on fresh inputs, on odd shapes and on named workloads.

    Args:
        subject: What to check.
        build: Its build, which must not have failed.
        workloads: Named workloads besides the kernel's ``check_workloads``.
        timeout_s: For the candidate, all cases together.
        before_start: Called when the judge was started; returns when it may load the candidate.
        free_bytes: What the judge's arrays may take; None: what is free.

    Raises:
        EnvironmentGapError: The machine lacks what judging needs, or the memory for the candidate.
        KbError: The tolerance accepts an output that is wrong on purpose, or the reference
            itself does not run.
    """
    started = time.monotonic()
    job = _make_job(subject, build, workloads, timeout_s)
    if free_bytes is not None:
        job["free_bytes"] = free_bytes
    env = threads_env(subject.machine.core_count)
    with scratch_folder() as folder, start_job(job, folder, env=env) as judge:
        before_start()
        run = judge.finish(timeout_s + _JUDGE_TIMEOUT_S)
    report = get_judge_result(subject, run)["report"]
    _require_selftest(subject, report)
    fields = _make_check_fields(subject, report)
    if fields["status"] == "unloadable" and not subject.variant.is_compiled:
        fields["cure"] = f"import {subject.variant.source} by itself, and see that it loads"
    return Check(**subject.identity_fields, **fields, seconds=time.monotonic() - started)


def _make_job(
    subject: MeasurementSubject, build: Build, workloads: Sequence[str], timeout_s: float
) -> CheckJob:
    kernel_folder, target = subject.kernel_folder, subject.variant.target
    reference = prepare_reference(subject, build)
    candidate = make_candidate_spec(subject, build)
    share_module_seed(reference, [candidate["code"]])
    return {
        "mode": "check",
        "target": target,
        "reference": reference,
        "tolerances": make_tolerances(kernel_folder),
        "cases": [
            *_make_cases(kernel_folder, workloads),
            *make_extra_case_specs(kernel_folder, reference),
        ],
        "hidden_sizes": make_hidden_size_cases(kernel_folder, target),
        "timeout_s": timeout_s,
        "free_bytes": find_free_bytes(target),
        "runners": {"candidate": candidate},
    }


def _make_cases(kernel_folder: KernelFolder, workloads: Sequence[str]) -> list[CaseSpec]:
    """Return odd shapes, then named workloads, on which the comparison is tested."""
    kernel = kernel_folder.kernel
    cases = [make_case_spec(kernel_folder, format_sizes(s), s) for s in kernel.check_workloads]
    for name in dict.fromkeys(workloads):
        sizes = kernel.workloads[name]
        cases.append(make_case_spec(kernel_folder, name, sizes, selftest=True))
    add_distributions(kernel_folder, cases)
    return cases


def get_judge_result(subject: MeasurementSubject, run: JobRun[_JudgeResultT]) -> _JudgeResultT:
    """Return the judge's result.

    Raises:
        EnvironmentGapError: The machine cannot hold or share what the judge needs.
        KbError: The judge itself did not finish: it was killed, or the reference does not run.
    """
    if run.result is not None:
        result: JudgeResult = run.result
        if "unsupported_host" in result:
            gap = result["unsupported_host"]
            raise EnvironmentGapError(gap["gap"], gap["cure"])
        return run.result
    kernel_folder = subject.kernel_folder
    last_line = (run.process.output.strip().splitlines() or ["no output"])[-1]
    if run.process.timed_out:
        last_line = f"it took longer than {run.process.seconds:.0f} s"
    where = f" on {run.last_step}" if run.last_step else ""
    if "out of memory" in last_line:  # torch's text
        raise EnvironmentGapError(
            f"judging {kernel_folder.kernel.id}{where} takes more GPU memory than there is: "
            f"{last_line}",
            "name a smaller --workload",
        )
    if run.process.returncode == -signal.SIGKILL and not run.process.timed_out:
        raise KbError(
            f"the judge of {kernel_folder.kernel.id} was killed{where} (SIGKILL), for want of "
            "memory or by another process; free memory, see what dmesg says, and measure again"
        )
    raise KbError(
        f"the reference of {kernel_folder.kernel.id} does not run{where}: {last_line}; "
        f"fix {_name_reference(subject)}"
    )


def _name_reference(subject: MeasurementSubject) -> str:
    """Return the file that the reference is in."""
    folder, kernel = subject.kernel_folder.folder, subject.kernel_folder.kernel
    own = find_reference_variant(kernel, subject.variant.target)
    return str(folder / (own.source if own is not None else kernel.reference.files[0]))


def _require_selftest(subject: MeasurementSubject, report: CheckReport) -> None:
    """Raise KbError if an output that is wrong on purpose passed the comparison."""
    if not report["selftest_accepted"]:
        return
    kernel = subject.kernel_folder.kernel
    cure = "tighten atol in its kernel.yaml"
    if kernel.reference.module is not None:
        cure = "give it inputs on which its output is more than rounding noise"
    raise KbError(
        f"the tolerances of {kernel.id} accept {report['selftest_accepted'][0]} "
        f"as an answer, so they decide nothing; {cure}"
    )


def require_gpu_memory(failure: RunnerFailure) -> None:
    """Accuse no candidate of what the GPU lacks: others, and the judge, take of its memory too.

    Raises:
        EnvironmentGapError: The candidate could not allocate memory of the GPU.
    """
    if failure["status"] == "out-of-gpu-memory":
        raise EnvironmentGapError(
            f"the candidate takes more GPU memory than there is: {failure['detail']}",
            "name a smaller --workload, end other processes on the GPU, and look for memory that "
            "grows with every call",
        )


def find_cure(failure: RunnerFailure) -> str:
    """Return what to do about a candidate that failed without an answer."""
    if failure["status"] == "crashed" and failure["exit_status"] is not None:
        return "a kernel must return to its caller; look for exit and abort"
    return _CURES[failure["status"]]


def _make_check_fields(subject: MeasurementSubject, report: CheckReport) -> dict[str, Any]:
    """Return the fields of a Check that follow from the judge's report.

    Raises:
        EnvironmentGapError: The candidate could not allocate memory of the GPU.
    """
    cases = tuple(_make_checked_case(result) for result in report["cases"])
    common = {
        "cases": cases,
        "selftest": tuple(report["selftest_rejected"]),
        "layers": tuple(report["layers"]),
        "hidden_inputs": tuple(report["hidden_inputs"]),
        "notes": _make_notes(subject, report),
    }
    failure = report["runner_died"]
    if failure:
        require_gpu_memory(failure)
        where = f" on {failure['case']}" if failure["case"] else ""
        return {
            **common,
            "status": failure["status"],
            "detail": f"{failure['detail']}{where}",
            "cure": find_cure(failure),
        }
    failed = [case for case in cases if case.status == "incorrect"]
    has_kernel_error = any(result["kernel_error"] for result in report["cases"])
    return {
        **common,
        "status": "kernel-error" if has_kernel_error else "incorrect" if failed else "correct",
        "detail": f"{failed[0].workload}: {failed[0].why}" if failed else None,
        "cure": _find_incorrect_cure(subject, report, has_kernel_error) if failed else None,
    }


def _find_incorrect_cure(
    subject: MeasurementSubject, report: CheckReport, has_kernel_error: bool
) -> str:
    missing, kernel = report["missing_parameters"], subject.kernel_folder.kernel
    if has_kernel_error:
        return _CURES["kernel-error"]
    if missing:
        return (
            f"its model has no counterpart of the parameter {missing[0]} of the task's model: keep "
            f"it, under that name, and read it in each call"
        )
    if any(result["has_tf32_error"] for result in report["cases"]) and kernel.precision is None:
        setting = "precision: open in kernel.yaml" if kernel.axes else "--precision open"
        return (
            f"it is as far off as products in TF32 are: compute them in fp32 (in Triton "
            f"input_precision='ieee'), or state {setting} if TF32 is exact enough"
        )
    return f"compare {subject.variant.source} with the reference on this workload"


def _make_notes(subject: MeasurementSubject, report: CheckReport) -> tuple[str, ...]:
    """Return what the reference is, and what was left out, by kernel.yaml and by the judge."""
    options = subject.kernel_folder.kernel.hidden_inputs
    skipped = (
        [f"hidden inputs skipped: {', '.join(options.skip)} ({options.reason})"]
        if options.skip
        else []
    )
    told = describe_reference(subject.kernel_folder, subject.variant.target)
    return (*told, *skipped, *report["notes"])


def _make_checked_case(result: CaseResult) -> CheckedCase:
    reason = result["kernel_error"] or result["tampering"]
    if reason is None and result["nan_count"]:
        reason = f"{result['nan_count']} elements are NaN or were never written"
    elif reason is None and not result["correct"]:
        wrong_share, worst = 1 - result["matched_ratio"], result["max_abs_error"]
        by = "" if worst is None else f", by up to {worst:.3g}"
        share = f"{wrong_share:.1%}" if wrong_share > _FEW else "few"
        reason = f"{share} of the elements are wrong{by}"
    return CheckedCase(
        workload=result["name"],
        status="incorrect" if reason else "correct",
        max_abs_error=result["max_abs_error"],
        reference_error=result["reference_error"],
        matched_ratio=result["matched_ratio"],
        nan_count=result["nan_count"],
        steady=result["is_deterministic"],
        why=reason,
    )


def make_extra_case_specs(kernel_folder: KernelFolder, reference: Reference) -> list[CaseSpec]:
    """Return a case for each of the kernel's ``extra_cases``; none of them tests the comparison.

    Args:
        kernel_folder: The kernel.
        reference: Of the job, whose parameters the cases share.
    """
    cases = kernel_folder.kernel.extra_cases
    return [_make_spec(kernel_folder, case, reference) for case in cases]


def _make_spec(kernel_folder: KernelFolder, case: ExtraCase, reference: Reference) -> CaseSpec:
    if reference["kind"] != "module":
        raise ValueError("extra cases need a reference that is a module")
    own = reference.copy()
    own["file"] = str(kernel_folder.folder / case.file)
    sizes = next(iter(kernel_folder.kernel.workloads.values()))  # its shapes name no axes
    return {
        "name": case.name,
        "selftest": False,
        "axis_names": list(kernel_folder.kernel.size_axes),
        "axes": [sizes[axis] for axis in kernel_folder.kernel.size_axes],
        "inputs": [make_input_spec(array, sizes) for array in case.inputs],
        "outputs": [make_output_spec(array, sizes) for array in case.outputs],
        "distributions": [],
        "reference": own,
    }
