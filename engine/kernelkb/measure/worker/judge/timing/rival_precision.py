"""Finds at which precision a candidate's rivals may compute, from errors of calls that are judged.

A candidate whose products are rounded to TF32 or less is compared with torch that does the same.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kernelkb.measure.worker.judge.case_buffers import CaseBuffers
from kernelkb.measure.worker.judge.compare.compare import (
    Errors,
    ReferenceOutputs,
    choose_precisions,
    is_as_exact,
    is_less_exact,
    mean_errors,
    worst_errors,
)
from kernelkb.measure.worker.judge.inputs.inputs import Tensors, same_bits
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.judge.timing.pair_timing import IncorrectCallError
from kernelkb.measure.worker.judge.timing.runner_timer import RunnerTimer
from kernelkb.measure.worker.shared.failures import RunnerError, UnsupportedHost
from kernelkb.measure.worker.shared.fp32_precision import HALF_DTYPES
from kernelkb.measure.worker.shared.messages.jobs import BenchJob, PrecisionReport
from kernelkb.measure.worker.shared.messages.specs import Precision, Target

_MEASURED_CALLS = 2
"""On whose inputs the reference is run at each precision."""
_HALF_PRECISIONS: dict[Target, tuple[Precision, ...]] = {
    "cuda": ("fp16", "bf16"),  # equally fast, and fp16 is more exact where nothing overflows
    "cpu": ("bf16", "fp16"),  # more CPUs have instructions for bf16
}


class RivalPrecision:
    """Errors of the candidate and of the task's reference at several precisions.

    The candidate's worst call counts. It cannot know which calls those are: every call that is
    compared with the reference is one.

    Attributes:
        base_rivals: Names of the rivals at the task's own precision.
        skipped: Names of rivals not to start.
    """

    def __init__(self, job: BenchJob) -> None:
        stated = job["cases"][0].get("precision")
        self._base: Precision | None = "fp32" if stated == "open" else stated
        self._base_label: Precision | None = self._base
        self._specs = job["reduced_rivals"]
        self._target = job["target"]
        self._halves = _HALF_PRECISIONS[job["target"]]
        self._candidate: Errors = ()
        self._base_calls: list[Errors] = []
        self._calls_by_precision: dict[Precision, list[Errors]] = {}
        self._examined_count = 0
        self.base_rivals: list[str] = []
        self.skipped: set[str] = set()
        self._rivals: dict[str, Precision] = {}
        self._rival_errors: dict[str, Errors] = {}

    @contextmanager
    def observe(self, buffers: CaseBuffers) -> Iterator[None]:
        """Note the errors of outputs that are compared within a block: all are the candidate's."""
        buffers.observer = self._note_call
        try:
            yield
        finally:
            buffers.observer = None

    def _note_call(self, reference: ReferenceOutputs, outputs: Tensors) -> None:
        if not self._specs:
            return
        errors = tuple(reference.relative_errors(outputs))
        self._candidate = worst_errors([self._candidate or errors, errors])
        if len(self._base_calls) < _MEASURED_CALLS:
            own = reference.run_reference(None, self._base)
            self._base_calls.append(tuple(reference.relative_errors(own)))
        if self._examined_count < _MEASURED_CALLS and self._is_reduced():
            self._examined_count += 1
            self._examine_precisions(reference)

    def _is_reduced(self) -> bool:
        return bool(self._base_calls) and is_less_exact(
            self._candidate, mean_errors(self._base_calls)
        )

    def _examine_precisions(self, reference: ReferenceOutputs) -> None:
        """Run the reference at every precision that changes its outputs on this machine."""
        base = reference.run_reference(None, self._base)
        if self._base is None and _are_equal(base, reference.run_reference(None, "fp32")):
            self._base_label = "fp32"
        previous = base
        for precision in self._specs:
            try:
                dtype = HALF_DTYPES.get(precision)
                outputs = reference.run_reference(dtype, None if dtype else precision)
            except RuntimeError:  # no such operation in this type, or too little memory
                continue
            if _are_equal(outputs, base):
                if self._base_label is None:
                    self._base_label = precision
            elif not _are_equal(outputs, previous):
                calls = self._calls_by_precision.setdefault(precision, [])
                calls.append(tuple(reference.relative_errors(outputs)))
            previous = outputs

    def _list_admitted(self) -> list[Precision]:
        if not self._is_reduced():
            return []
        errors = {name: mean_errors(calls) for name, calls in self._calls_by_precision.items()}
        return choose_precisions(self._candidate, errors, self._halves)

    def has_new_rivals(self) -> bool:
        """Return whether ``start_new_rivals`` would start any."""
        names = {name for precision in self._list_admitted() for name in self._specs[precision]}
        return not names <= {*self._rivals, *self.skipped}

    def start_new_rivals(
        self, runners: dict[str, RunnerProcess], folder: Path
    ) -> dict[str, RunnerProcess]:
        """Start the rivals that the candidate's errors admit and that were not started before.

        Args:
            runners: All runners by name; those that are started are added.
            folder: The judge's scratch folder.
        """
        added: dict[str, RunnerProcess] = {}
        for precision in self._list_admitted():
            for name, spec in self._specs[precision].items():
                if name not in self._rivals and name not in self.skipped:
                    self._rivals[name] = precision
                    runners[name] = RunnerProcess(name, spec, self._target, folder)
                    added[name] = runners[name]
        return added

    def verify_rival(self, timer: RunnerTimer, buffers: CaseBuffers) -> None:
        """Measure a reduced rival's own error.

        Raises:
            RunnerError: It is larger than the candidate's, or the rival reported an error.
        """
        calls: list[Errors] = []
        for _ in range(_MEASURED_CALLS):
            for slot, outputs in timer.time_batch(_draw_one, single_call=True).outputs.items():
                calls.append(tuple(buffers.compute_reference(slot).relative_errors(outputs)))
        errors = self._rival_errors[timer.name] = mean_errors(calls)
        if not is_as_exact(errors, self._candidate):
            raise RunnerError(
                f"its error is {max(errors):.1e}, the candidate's {max(self._candidate):.1e}",
                timer.name,
            )

    def make_report(self) -> PrecisionReport:
        """Return what a verdict says about precision."""
        return {
            "base": self._base_label,
            "base_rivals": self.base_rivals,
            "base_error": _largest(mean_errors(self._base_calls)),
            "candidate_error": _largest(self._candidate),
            "rivals": self._rivals,
            "rival_errors": {name: max(e) for name, e in self._rival_errors.items()},
        }


def _draw_one(slots: Sequence[int]) -> list[int]:
    return [secrets.choice(slots)]


def check_trial_calls(candidate: RunnerTimer) -> None:
    """Compare calls of the candidate with the reference before its rivals are chosen.

    Raises:
        IncorrectCallError: One was incorrect.
        RunnerDied: The candidate ended.
        RunnerError: The candidate reported an error.
    """
    for _ in range(_MEASURED_CALLS):
        fault = candidate.find_fault(candidate.time_batch(_draw_one, single_call=True).outputs)
        if fault:
            raise IncorrectCallError(fault)


def wait_until_ready(runner: RunnerProcess) -> None:
    """Wait until an additional rival is ready.

    Raises:
        RunnerError: It does not start; there may be no room for one more process.
    """
    try:
        runner.wait_ready()
    except UnsupportedHost as error:
        raise RunnerError(str(error), runner.name) from error


def _largest(errors: Errors) -> float | None:
    return max(errors, default=None)


def _are_equal(left: Tensors, right: Tensors) -> bool:
    return all(
        one.dtype == other.dtype and same_bits(one.contiguous(), other.contiguous())
        for one, other in zip(left, right, strict=True)
    )
