"""Checks a candidate: every case on fresh inputs, three calls each, compared with the reference."""

from __future__ import annotations

import random
import time
from pathlib import Path

import torch

from kernelkb.measure.worker.judge.case_buffers import (
    CaseBuffers,
    build_result,
    call_once,
    is_passing,
    remaining_s,
)
from kernelkb.measure.worker.judge.compare.compare import ReferenceOutputs
from kernelkb.measure.worker.judge.hidden_checks import (
    HiddenChecks,
    parse_missing_parameters,
)
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, Tensors, same_bits
from kernelkb.measure.worker.judge.inputs.memory_plan import plan_case_memory
from kernelkb.measure.worker.judge.procfs import wait_for_start
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.judge.timing.resource_use import blame_for_memory
from kernelkb.measure.worker.shared.array_values import describe_data, make_place
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError, UnsupportedHost
from kernelkb.measure.worker.shared.messages.jobs import (
    CaseResult,
    CheckJob,
    CheckReport,
)
from kernelkb.measure.worker.shared.messages.specs import CaseSpec, DataSummary, RunnerStatus

_DELAY_CYCLES = 400_000_000
"""GPU clock cycles of the kernel in front of the delayed call."""
_MIN_DELAY_S = 0.1
"""How long these cycles take at least: no GPU's clock reaches 4 GHz."""
_PEEK_AFTER_S = 0.02
"""When to look at the outputs: long after a call that did not wait, long before the delay ends."""
_NO_FLUSH_BYTES = 4
_SECOND_CALL_SHARE = 0.5
"""Of its time that a candidate may have used when one that is wrong is called again."""


def check_cases(job: CheckJob, folder: Path, runners: dict[str, RunnerProcess]) -> CheckReport:
    """Check every case until one ends the candidate.

    Raises:
        UnsupportedHost: No runner starts here, or the memory cannot be allocated or shared.
    """
    candidate = runners["candidate"]
    checks = _Checks(job, candidate, HiddenChecks(candidate, job), _make_empty_report())
    report, hidden = checks.report, checks.hidden
    try:
        try:
            checks.check_all(folder)
        except (UnsupportedHost, RuntimeError, RunnerDied) as error:
            if job["target"] == "cuda":
                blame_for_memory(error, candidate)
            raise
    except RunnerDied as error:
        failure = error.to_message(hidden.current or checks.case_name)
        if error.status == "timed-out":
            failure["detail"] = f"it did not finish within {job['timeout_s']:g} s"
        report["runner_died"] = failure
    except RunnerError as error:
        status: RunnerStatus = "unloadable" if checks.case_name is None else "crashed"
        report["runner_died"] = error.to_message(status, hidden.current or checks.case_name)
    report["cases"] += hidden.failures
    report["hidden_inputs"], report["notes"] = hidden.passed, report["notes"] + hidden.notes
    report["selftest_accepted"] = sorted(checks.accepted)
    report["selftest_rejected"] = sorted(checks.rejected - checks.accepted)
    return {**report, "layers": candidate.sandbox_layers}


def _write_progress(folder: Path, case_name: str, count: int) -> None:
    """Write which case is checked, and how many were before, for the message after a timeout."""
    (folder / "progress").write_text(f"{case_name}\n{count}", encoding="utf-8")


class _Checks:
    """The cases of one job, and what was found so far."""

    def __init__(
        self, job: CheckJob, candidate: RunnerProcess, hidden: HiddenChecks, report: CheckReport
    ) -> None:
        self._job, self._candidate = job, candidate
        self.hidden, self.report = hidden, report
        self.case_name: str | None = None
        self.accepted, self.rejected = set[str](), set[str]()

    def check_all(self, folder: Path) -> None:
        """Check every case; raises what ends that."""
        job, report = self._job, self.report
        _wait_until_started(self._candidate, folder)
        timeout_s = remaining_s(self._candidate, job["timeout_s"])
        answer = self._candidate.ask({"command": "load"}, timeout_s)
        report["missing_parameters"] = parse_missing_parameters(answer)
        for case_spec in job["cases"]:
            self.case_name = case_spec["name"]
            _write_progress(folder, self.case_name, len(report["cases"]))
            case = _make_case(job, case_spec)
            result, *case_selftest = self._check_case(case)
            report["cases"].append(result)
            report["notes"] += [note for note in case.notes if note not in report["notes"]]
            self.accepted |= set(case_selftest[0])
            self.rejected |= set(case_selftest[1])
        if all(map(is_passing, report["cases"])) and not self.hidden.failures:
            self.case_name = None
            self.hidden.check_other_sizes(_make_case(job, job["cases"][0]))

    def _check_case(self, case: KernelCase) -> tuple[CaseResult, list[str], list[str]]:
        """Return the result, and the names of accepted and rejected wrong outputs."""
        rng = random.SystemRandom()  # no candidate can compute what comes next
        slots, tolerances = case.plan.slot_count, self._job["tolerances"]
        buffers = CaseBuffers(case, tolerances, slots, rng, flush_bytes=_NO_FLUSH_BYTES)
        try:
            timeout_s, runner = self._job["timeout_s"], self._candidate
            buffers.attach_runner(runner, timeout_s=remaining_s(runner, timeout_s))
            if case.case_spec["selftest"] and not case.plan.in_pieces:
                self.report.setdefault("data", {})[case.case_spec["name"]] = _describe(buffers)
            return _check_repeated_calls(buffers, runner, timeout_s, self.hidden)
        finally:
            buffers.close()


def _describe(buffers: CaseBuffers) -> list[DataSummary]:
    """Describe the ids, offsets, lengths and masks of a case, without outputs that have a start."""
    case = buffers.case
    started = {spec["starts_as"] for spec in case.output_specs}
    inputs = zip(case.input_specs, buffers.inputs(0), strict=True)
    return describe_data(
        [(spec["name"], array) for spec, array in inputs if spec["name"] not in started],
        [
            make_place(spec["name"], spec["shape"], getattr(torch, spec["dtype"]), is_output=True)
            for spec in case.output_specs
        ],
    )


def _wait_until_started(candidate: RunnerProcess, folder: Path) -> None:
    candidate.wait_ready()
    wait_for_start(folder)


def _make_empty_report() -> CheckReport:
    return {
        "cases": [],
        "hidden_inputs": [],
        "notes": [],
        "missing_parameters": [],
        "selftest_accepted": [],
        "selftest_rejected": [],
        "runner_died": None,
        "layers": [],
    }


def _make_case(job: CheckJob, case_spec: CaseSpec) -> KernelCase:
    plan = plan_case_memory(case_spec, job["free_bytes"], len(job["runners"]))
    reference = case_spec.get("reference", job["reference"])
    return KernelCase(job["target"], reference, case_spec, plan)


def _check_repeated_calls(
    buffers: CaseBuffers, candidate: RunnerProcess, timeout_s: float, hidden: HiddenChecks
) -> tuple[CaseResult, list[str], list[str]]:
    """Call on one slot, again on the same inputs, and on another slot; compare each output."""
    tests_judge = buffers.case.case_spec["selftest"]
    first, error = call_once(buffers, candidate, 0, timeout_s)
    reference = buffers.compute_reference(0)
    accepted, rejected = reference.run_selftest() if tests_judge else ([], [])
    result = build_result(buffers, 0, reference.compare(first), error)
    if not is_passing(result):
        _add_shape(result, buffers, candidate, reference, first, timeout_s)
        return result, accepted, rejected
    again, error = call_once(buffers, candidate, 0, timeout_s)
    is_deterministic = all(map(same_bits, first, again))
    if not is_deterministic:
        result = _worse_result(result, _judge_second_call(buffers, reference, again, error))
    # There may be no room for another slot's besides.
    kept = None if buffers.case.plan.in_pieces else first
    del first, again, reference
    slot = buffers.slot_count - 1
    if slot == 0:
        candidate.pause()  # it must not see its inputs while they are made
        buffers.refresh([slot])
    outputs, error = call_once(buffers, candidate, slot, timeout_s)
    reference = buffers.compute_reference(slot)
    last = build_result(buffers, slot, reference.compare(outputs), error)
    last["error_shape"] = _describe_later_call(last, reference, outputs, kept)
    del kept
    if tests_judge and is_passing(last):
        last["tampering"] = _find_stream_order_fault(buffers, candidate, timeout_s)
    result = _worse_result(result, last)
    result["is_deterministic"] = is_deterministic
    if is_passing(result):
        root_mean_squares = reference.root_mean_squares()
        del reference, outputs  # there may be no room for others besides
        hidden.check_distributions(buffers, root_mean_squares)
    return result, accepted, rejected


def _add_shape(
    result: CaseResult,
    buffers: CaseBuffers,
    candidate: RunnerProcess,
    reference: ReferenceOutputs,
    first: Tensors,
    timeout_s: float,
) -> None:
    """Write into a result how the first call is wrong, and whether a second one is the same.

    It is not called again where it may have no time left for the other cases.
    """
    result["has_tf32_error"] = reference.is_off_like_tf32(first)
    if result["correct"] or result["kernel_error"]:
        return
    shape = reference.describe_wrong(first)
    result["error_shape"] = shape
    if candidate.total_request_s > _SECOND_CALL_SHARE * timeout_s:
        return
    again, error = call_once(buffers, candidate, 0, timeout_s)
    if error or all(map(same_bits, first, again)):
        return
    result["is_deterministic"] = False
    if reference.compare(again)["correct"]:
        told = "only the first call on the same inputs is wrong"
    elif reference.adds_to(first, again):
        told = "the second call on the same inputs adds its result to that of the first"
    else:
        count = sum(_count_differing(*pair) for pair in zip(first, again, strict=True))
        told = f"two calls on the same inputs differ in {count:,} elements"
    result["error_shape"] = [told, *shape]


def _count_differing(left: torch.Tensor, right: torch.Tensor) -> int:
    """Return the number of elements that differ; NaN equals itself."""
    differ = (left != right) & ~(left.isnan() & right.isnan())
    return int(differ.count_nonzero())


def _judge_second_call(
    buffers: CaseBuffers, reference: ReferenceOutputs, outputs: Tensors, error: str | None
) -> CaseResult:
    """Return the result of a second call on the same inputs, after a right one."""
    result = build_result(buffers, 0, reference.compare(outputs), error)
    if not result["correct"]:
        told = "only the second call on the same inputs is wrong"
        result["error_shape"] = [*reference.describe_wrong(outputs), told]
    return result


def _describe_later_call(
    result: CaseResult, reference: ReferenceOutputs, outputs: Tensors, first: Tensors | None
) -> list[str]:
    """Say how the call on other inputs is wrong, after two right ones; nothing where it is right.

    Args:
        result: Of the call.
        reference: Of the other inputs.
        outputs: Of the call.
        first: Of the first call; None where memory did not suffice to keep them.
    """
    if result["correct"] or result["kernel_error"]:
        return []
    told = "only the call on other inputs, after two right ones, is wrong"
    if first is not None and all(map(same_bits, first, outputs)):
        return ["they hold the outputs of the first call", told]
    return [*reference.describe_wrong(outputs), told]


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
        remaining_s(candidate, timeout_s),
    )
    time.sleep(_PEEK_AFTER_S)
    is_written = not buffers.is_untouched(0)
    is_delayed = time.monotonic() - start < _MIN_DELAY_S
    candidate.ask({"command": "synchronize"}, remaining_s(candidate, timeout_s))
    if not (is_written and is_delayed):
        return None
    return (
        "it wrote its outputs before earlier work on its stream was done: launch on the stream "
        "that it is given, not on one of its own"
    )


def _worse_result(left: CaseResult, right: CaseResult) -> CaseResult:
    return min(left, right, key=lambda result: (is_passing(result), result["matched_ratio"]))
