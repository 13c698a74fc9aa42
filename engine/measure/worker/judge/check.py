"""Checks a candidate: every case on fresh inputs, three calls each, compared with the reference."""

from __future__ import annotations

import random
import secrets
import time
from pathlib import Path

from kernelkb.measure.worker.judge.buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs import KernelCase, Tensors, same_bits
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError
from kernelkb.measure.worker.shared.messages.judge_jobs import (
    CaseResult,
    CheckJob,
    CheckReport,
    OutputComparison,
)
from kernelkb.measure.worker.shared.messages.specs import CaseSpec, RunnerStatus

_DELAY_CYCLES = 400_000_000
"""GPU clock cycles of the kernel in front of the delayed call."""
_MIN_DELAY_S = 0.1
"""How long these cycles take at least: no GPU's clock reaches 4 GHz."""
_PEEK_AFTER_S = 0.02
"""When to look at the outputs: long after a call that did not wait, long before the delay ends."""
_MIN_REQUEST_S = 0.1
_NO_FLUSH_BYTES = 4


def check_cases(job: CheckJob, folder: Path, runners: dict[str, RunnerProcess]) -> CheckReport:
    """Check every case until one ends the candidate's process.

    The name of the current case is in the file ``progress`` of the folder.

    Raises:
        UnsupportedHost: No runner starts here, or the memory cannot be allocated or shared.
    """
    candidate = runners["candidate"]
    report: CheckReport = {
        "cases": [],
        "selftest_accepted": [],
        "selftest_rejected": [],
        "runner_died": None,
        "layers": [],
    }
    accepted: set[str] = set()
    rejected: set[str] = set()
    case_name: str | None = None
    try:
        candidate.wait_ready()
        candidate.ask({"command": "load"}, _remaining_s(candidate, job["timeout_s"]))
        for case_spec in job["cases"]:
            case_name = case_spec["name"]
            (folder / "progress").write_text(case_name, encoding="utf-8")
            result, case_accepted, case_rejected = _check_case(job, case_spec, candidate)
            report["cases"].append(result)
            accepted |= set(case_accepted)
            rejected |= set(case_rejected)
    except RunnerDied as error:
        failure = error.to_message(case_name)
        if error.status == "timed-out":
            failure["detail"] = f"it did not finish within {job['timeout_s']:g} s"
        report["runner_died"] = failure
    except RunnerError as error:
        status: RunnerStatus = "unloadable" if case_name is None else "crashed"
        report["runner_died"] = error.to_message(status, case_name)
    report["selftest_accepted"] = sorted(accepted)
    report["selftest_rejected"] = sorted(rejected - accepted)
    return {**report, "layers": candidate.sandbox_layers}


def _remaining_s(candidate: RunnerProcess, timeout_s: float) -> float:
    """Return what is left of the candidate's time; the judge's own time does not count."""
    return max(_MIN_REQUEST_S, timeout_s - candidate.total_request_s)


def _check_case(
    job: CheckJob, case_spec: CaseSpec, candidate: RunnerProcess
) -> tuple[CaseResult, list[str], list[str]]:
    """Return the result, and the names of accepted and rejected wrong outputs."""
    case = KernelCase(job["target"], job["reference"], case_spec)
    rng = random.Random(secrets.randbits(64))
    buffers = CaseBuffers(case, job["tolerances"], 2, rng, flush_bytes=_NO_FLUSH_BYTES)
    try:
        timeout_s = job["timeout_s"]
        buffers.attach_runner(candidate, timeout_s=_remaining_s(candidate, timeout_s))
        return _check_repeated_calls(buffers, candidate, timeout_s)
    finally:
        buffers.close()


def _check_repeated_calls(
    buffers: CaseBuffers, candidate: RunnerProcess, timeout_s: float
) -> tuple[CaseResult, list[str], list[str]]:
    """Call on one slot, again on the same inputs, and on another slot; compare each output."""
    tests_judge = buffers.case.case_spec["selftest"]
    first, error = _call_once(buffers, candidate, 0, timeout_s)
    reference = buffers.compute_reference(0)
    accepted, rejected = reference.run_selftest() if tests_judge else ([], [])
    result = _build_result(buffers, 0, reference.compare(first), error)
    if not _is_passing(result):
        return result, accepted, rejected
    again, error = _call_once(buffers, candidate, 0, timeout_s)
    is_deterministic = all(map(same_bits, first, again))
    if not is_deterministic:
        second_result = _build_result(buffers, 0, reference.compare(again), error)
        result = _worse_result(result, second_result)
    del first, again, reference  # there may be no room for another slot's besides
    outputs, error = _call_once(buffers, candidate, 1, timeout_s)
    last = _build_result(buffers, 1, buffers.compute_reference(1).compare(outputs), error)
    if tests_judge and _is_passing(last):
        last["tampering"] = _find_stream_order_fault(buffers, candidate, timeout_s)
    result = _worse_result(result, last)
    result["is_deterministic"] = is_deterministic
    return result, accepted, rejected


def _call_once(
    buffers: CaseBuffers, candidate: RunnerProcess, slot: int, timeout_s: float
) -> tuple[Tensors, str | None]:
    """Return copies of a slot's outputs after one call, and the error that was reported."""
    buffers.reset_outputs(slot)
    try:
        candidate.ask({"command": "call", "slot": slot}, _remaining_s(candidate, timeout_s))
    except RunnerError as error:
        return buffers.copy_outputs(slot), str(error)
    return buffers.copy_outputs(slot), None


def _find_stream_order_fault(
    buffers: CaseBuffers, candidate: RunnerProcess, timeout_s: float
) -> str | None:
    """Report a call that does not wait for earlier work on the stream that it is given.

    A caller's inputs are computed on that stream. A call that synchronizes the GPU itself returns
    after the delay; it cannot be examined and passes.
    """
    if buffers.case.target != "cuda":
        return None
    buffers.reset_outputs(0)
    start = time.monotonic()
    candidate.ask(
        {"command": "call-delayed", "slot": 0, "cycles": _DELAY_CYCLES},
        _remaining_s(candidate, timeout_s),
    )
    time.sleep(_PEEK_AFTER_S)
    is_written = not buffers.is_untouched(0)
    is_delayed = time.monotonic() - start < _MIN_DELAY_S
    candidate.ask({"command": "synchronize"}, _remaining_s(candidate, timeout_s))
    if not (is_written and is_delayed):
        return None
    return (
        "it wrote its outputs before earlier work on its stream was done: launch on the stream "
        "that it is given, not on one of its own"
    )


def _build_result(
    buffers: CaseBuffers, slot: int, comparison: OutputComparison, kernel_error: str | None
) -> CaseResult:
    return {
        **comparison,
        "name": buffers.case.case_spec["name"],
        "kernel_error": kernel_error,
        "tampering": buffers.find_tampering(slot),
        "is_deterministic": True,
    }


def _is_passing(result: CaseResult) -> bool:
    return result["correct"] and not result["kernel_error"] and not result["tampering"]


def _worse_result(left: CaseResult, right: CaseResult) -> CaseResult:
    return min(left, right, key=lambda result: (_is_passing(result), result["matched_ratio"]))
