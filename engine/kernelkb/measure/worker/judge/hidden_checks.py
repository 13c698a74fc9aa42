"""Checks a candidate on inputs that no task and no kernel.yaml names: distributions and sizes."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

import torch

from kernelkb.measure.worker.judge.case_buffers import (
    CaseBuffers,
    build_result,
    call_once,
    is_passing,
    remaining_s,
)
from kernelkb.measure.worker.judge.compare.oracle import count_rows, has_rows
from kernelkb.measure.worker.judge.hidden_reference import HiddenReference, UndefinedError
from kernelkb.measure.worker.judge.inputs.hidden_inputs import (
    DESCRIPTIONS,
    NON_FINITE,
    changes_anything,
)
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, Tensors
from kernelkb.measure.worker.judge.inputs.memory_plan import NO_DISTRIBUTIONS_NOTE
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError, UnsupportedHost
from kernelkb.measure.worker.shared.memory import array_bytes
from kernelkb.measure.worker.shared.messages.jobs import CaseResult, CheckJob
from kernelkb.measure.worker.shared.messages.runner_commands import MAX_MISSING_PARAMETERS, Answer
from kernelkb.measure.worker.shared.messages.specs import (
    ArraySpec,
    CaseSpec,
    Distribution,
    InputSpec,
    Reference,
)

_MAX_BYTES = 2**28
"""Of inputs and outputs: larger ones take seconds to compare."""
_SpecT = TypeVar("_SpecT", bound=ArraySpec)
_MIN_BUDGET_S = 4.0
_BUDGET_SHARE = 0.5
"""Hidden inputs take at most this share of the time that the check took before them."""
_FIRST_BUDGET_S = 60.0
"""The same for the first case, on which all distributions are to be checked."""
_SIZES_BUDGET_S = 2.0
"""CPU time of the judge for all drawn sizes: other load takes none of it."""
_MAX_SIZES_S = 10.0
"""Time for all of them: a candidate may compile for each."""
_FIRST_CALLS = 3
"""Calls before the first hidden one."""
_MIN_CALLS_LEFT = 3.0
"""No call is made unless the candidate has time for so many."""
_MAX_REQUESTS_S = 20.0
"""A candidate that took longer, to load and in all calls, would compile for other sizes too."""
_MAX_NAME_CHARS = 120
_MAX_REASON_CHARS = 200


def takes_all_integers(reference: Reference, case_spec: CaseSpec) -> bool:
    """Return whether the reference runs with the least and the largest value of integer inputs.

    It runs on a CPU: on a GPU an index outside of its array would end the judge.
    """
    case = KernelCase("cpu", reference, case_spec)
    inputs = case.make_inputs(0)
    arrays = [
        (array, spec.get("low", 0), int(spec["scale"]) - 1)
        for array, spec in zip(inputs, case.input_specs, strict=True)
        if is_drawn_integer(spec)
    ]
    for pick in (min, max):
        for array, least, largest in arrays:
            array.fill_(pick(least, largest))
        try:
            case.run_reference(inputs, None)
        except Exception:  # the reference's own: any size may be impossible
            return False
    return True


def is_drawn_integer(spec: InputSpec) -> bool:
    """Return whether an input holds random integers."""
    return spec["fill"] == "integers" and spec["dtype"].startswith(("int", "uint"))


def make_row_cases(case: KernelCase) -> list[CaseSpec]:
    """Return cases of 1, of all but one, and of a drawn number of a case's rows.

    None where its outputs and some inputs do not share a first dimension, are large, or memory is
    to be saved.
    """
    rows = count_rows(case)
    size = sum(map(array_bytes, (*case.input_specs, *case.output_specs)))
    if rows < 2 or size > _MAX_BYTES or case.plan.in_pieces:
        return []
    counts = {1, rows - 1, random.SystemRandom().randrange(1, rows)}
    return [_make_row_case(case, rows, count) for count in sorted(counts)]


def _make_row_case(case: KernelCase, rows: int, count: int) -> CaseSpec:
    spec = case.case_spec.copy()
    spec["name"] = f"{count} of its {rows} rows"
    spec["selftest"], spec["distributions"] = False, []
    spec["inputs"] = [
        value if "value" in value else _take_rows([value], rows, count)[0]
        for value in spec["inputs"]
    ]
    spec["outputs"] = _take_rows(spec["outputs"], rows, count)
    return spec


def _take_rows(specs: Sequence[_SpecT], rows: int, count: int) -> list[_SpecT]:
    taken = []
    for spec in specs:
        one = spec.copy()
        if has_rows(spec, rows):
            one["shape"] = [count, *spec["shape"][1:]]
        taken.append(one)
    return taken


class HiddenChecks:
    """Hidden inputs of one check.

    Attributes:
        failures: Results of those on which the candidate is incorrect.
        passed: Those on which it is correct, in words.
        notes: Those that were left out, and why.
        current: What the candidate is being called on; None: nothing hidden.
    """

    def __init__(self, candidate: RunnerProcess, job: CheckJob) -> None:
        self._candidate, self._job = candidate, job
        self._start_s = time.monotonic()
        self._spent_s = self._longest_call_s = 0.0
        self._reasons: dict[str, str] = {}
        self.failures: list[CaseResult] = []
        self.passed: list[str] = []
        self.notes: list[str] = []
        self.current: str | None = None

    def check_distributions(self, buffers: CaseBuffers, own_rms: Sequence[float]) -> None:
        """Check every distribution of a case that passed, in an order that is drawn.

        Args:
            buffers: The case's, bound to the candidate; its inputs are drawn anew.
            own_rms: Root mean square of each output for the task's own inputs.

        Raises:
            RunnerDied: The candidate ended; ``current`` says on which inputs.
        """
        pending = list(buffers.case.case_spec["distributions"])
        if pending and not buffers.case.plan.has_distributions:
            buffers.case.add_note(NO_DISTRIBUTIONS_NOTE)
            return
        random.SystemRandom().shuffle(pending)
        start_s, spent_before_s = time.monotonic(), self._spent_s
        for distribution in pending:
            budget_s = self._budget_s(is_first=not spent_before_s)
            if time.monotonic() - start_s > budget_s or not self._has_time():
                self._leave_out(DESCRIPTIONS[distribution], "there was no time left")
                continue
            try:
                self._check_distribution(buffers, own_rms, distribution)
            except UndefinedError as error:
                self._leave_out(DESCRIPTIONS[distribution], str(error))
        self._spent_s += time.monotonic() - start_s
        self.current = None
        self._write_notes()

    def _budget_s(self, *, is_first: bool) -> float:
        check_s = time.monotonic() - self._start_s - self._spent_s
        return _FIRST_BUDGET_S if is_first else max(_MIN_BUDGET_S, _BUDGET_SHARE * check_s)

    def _has_time(self) -> bool:
        used_s = self._candidate.total_request_s
        call_s = self._longest_call_s or used_s / _FIRST_CALLS
        return self._job["timeout_s"] - used_s > _MIN_CALLS_LEFT * call_s

    def _check_distribution(
        self, buffers: CaseBuffers, own_rms: Sequence[float], distribution: Distribution
    ) -> None:
        case, words = buffers.case, DESCRIPTIONS[distribution]
        if not changes_anything(distribution, buffers.inputs(0)):
            return
        prepared = buffers.input_generator.prepare(distribution)
        buffers.refresh([0], {0: prepared})
        tolerances = self._job["tolerances"]
        reference = HiddenReference(case, prepared.arrays, distribution, tolerances, own_rms)
        self.current = f"{case.case_spec['name']} with {words}"
        outputs, error = self._call(buffers)
        if error is not None and distribution in NON_FINITE:
            self._leave_out(words, f"the candidate refuses them: {error}")
            return
        result = build_result(buffers, 0, reference.compare(outputs), error)
        if not result["correct"]:
            result["error_shape"] = reference.describe_wrong(outputs)
        del reference, outputs, prepared
        result["name"] = self.current
        self.current = None
        if not is_passing(result):
            self.failures.append(result)
        elif words not in self.passed:
            self.passed.append(words)

    def _check_sizes(self, case_specs: Sequence[CaseSpec]) -> None:
        """Check further sizes while there is time for it.

        A candidate may refuse them. One that crashes there is not called again.
        """
        start_s, cpu_start_s, passed_count = time.monotonic(), time.process_time(), 0
        for case_spec in case_specs:
            is_late = time.process_time() - cpu_start_s > _SIZES_BUDGET_S
            if (
                is_late
                or time.monotonic() - start_s > _MAX_SIZES_S
                or not self._has_time()
                or self.failures
            ):
                break
            reason = ""
            try:
                reason = self._check_size(case_spec)
            except (UnsupportedHost, torch.OutOfMemoryError):
                reason = "the memory does not suffice"
            except RunnerError as error:
                reason = f"the candidate refuses it: {error}"
            except RunnerDied as error:
                self._leave_out(
                    "other sizes", f"the candidate ended on {case_spec['name']}: {error}"
                )
                break
            if reason:
                self._leave_out("other sizes", f"{case_spec['name']}: {reason}")
            passed_count += not reason
        if passed_count and not self.failures:
            self.passed.append(f"{passed_count} sizes drawn by the judge")
        self._write_notes()

    def check_other_sizes(self, case: KernelCase) -> None:
        """Check sizes that neither kernel.yaml nor a task's file names.

        Of a task, whose own inputs are ``case``, a note says what they show: a candidate may be
        made for its one size.
        """
        if self._job["reference"]["kind"] == "module":
            self._check_rows(case)
        else:
            self._check_sizes(self._job["hidden_sizes"])

    def _check_rows(self, case: KernelCase) -> None:
        if self._candidate.total_request_s > _MAX_REQUESTS_S:
            self._leave_out("other numbers of rows", "its calls take long")
            self._write_notes()
            return
        self._check_sizes(make_row_cases(case))
        for failure in self.failures:
            self.notes.append(f"right for the task's own size only: wrong for {failure['name']}")
        self.failures.clear()

    def _check_size(self, case_spec: CaseSpec) -> str:
        """Return why no answer can be judged; empty if one was, right or wrong."""
        target, reference_spec = self._job["target"], self._job["reference"]
        case = KernelCase(target, reference_spec, case_spec)
        has_integers = any(map(is_drawn_integer, case.input_specs))
        if target == "cuda" and has_integers and not takes_all_integers(reference_spec, case_spec):
            return "an index may lie outside of its array"
        rng = random.Random(secrets.randbits(64))
        timeout_s = self._job["timeout_s"]
        try:
            outputs = case.run_reference(case.make_inputs(rng.getrandbits(31)), None)
        except Exception as failure:  # the reference's own: any size may be impossible
            return f"the reference raises {type(failure).__name__}"
        if [list(output.shape) for output in outputs] != [s["shape"] for s in case.output_specs]:
            return "the reference's outputs have other shapes"
        del outputs
        buffers = CaseBuffers(case, self._job["tolerances"], 1, rng, flush_bytes=4)
        try:
            limit_s = remaining_s(self._candidate, timeout_s)
            buffers.attach_runner(self._candidate, timeout_s=limit_s)
            outputs, refusal = self._call(buffers)
            if refusal is not None:
                return f"the candidate refuses it: {refusal}"
            reference = buffers.compute_reference(0)
            result = build_result(buffers, 0, reference.compare(outputs), None)
            if is_passing(result):
                for distribution in case_spec["distributions"]:
                    with suppress(UndefinedError):
                        own_rms = reference.root_mean_squares()
                        self._check_distribution(buffers, own_rms, distribution)
            else:
                result["error_shape"] = reference.describe_wrong(outputs)
                self.failures.append(result)
        finally:
            buffers.close()
        return ""

    def _call(self, buffers: CaseBuffers) -> tuple[Tensors, str | None]:
        before_s = self._candidate.total_request_s
        result = call_once(buffers, self._candidate, 0, self._job["timeout_s"])
        call_s = self._candidate.total_request_s - before_s
        self._longest_call_s = max(self._longest_call_s, call_s)
        return result

    def _leave_out(self, what: str, reason: str) -> None:
        self._reasons.setdefault(what, reason[:_MAX_REASON_CHARS])

    def _write_notes(self) -> None:
        self.notes = [
            f"hidden inputs left out: {what} ({reason})"
            for what, reason in self._reasons.items()
            if what not in self.passed
        ]


def parse_missing_parameters(answer: Answer) -> list[str]:
    """Return the names in a runner's answer to ``load``: of any type, for all the judge knows."""
    names = answer.get("missing_parameters")
    if not isinstance(names, list):
        return []
    return [str(name)[:_MAX_NAME_CHARS] for name in names[:MAX_MISSING_PARAMETERS]]
