"""Keeps a process that tries builds of one variant, and starts another when a build ends it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from kernelkb.errors import KbError
from kernelkb.measure.job_specs import (
    make_case_spec,
    make_code_spec,
    make_reference_spec,
    make_tolerances,
    prepare_reference,
)
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.process.worker_jobs import StartedJob, start_job, threads_env
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.jobs import Trial, TrialJob, TrialTimes
from kernelkb.model.records.measurement import Build
from kernelkb.progress import sleep_cancellable
from kernelkb.safety.untrusted_text import to_one_line

START_TIMEOUT_S = 120.0
"""For torch, the inputs and the reference's outputs."""
TRIAL_TIMEOUT_S = {"cuda": 8.0, "cpu": 30.0}
"""Of one build. On a GPU a trial takes well below a second, and some configurations hang."""
TRIAL_BUDGET_S = 0.15
"""For the samples of one trial."""
TURNS_BUDGET_S = 2.0
"""For each of several builds that are timed in turns."""
_POLL_S = 0.001
_MAX_DETAIL = 200


class TrialOutcome(NamedTuple):
    """What one trial found."""

    status: str
    """``timed``, ``incorrect``, ``refused``, ``unloadable``, ``crashed`` or ``timed-out``."""
    detail: str | None
    samples_us: tuple[tuple[float, ...], ...]
    """For each build; empty if it was not timed."""


class TrialProcess:
    """A context: the process is started by the first trial, and ended after the block."""

    def __init__(
        self, subject: MeasurementSubject, workload: str, env: dict[str, str] | None = None
    ) -> None:
        """Prepare to try builds of a variant.

        Args:
            subject: The variant, and the machine.
            workload: One of the kernel's named workloads.
            env: Variables of the process, such as ``CUDA_VISIBLE_DEVICES``.
        """
        folder, target = subject.kernel_folder, subject.variant.target
        self._subject = subject
        self._timeout_s = TRIAL_TIMEOUT_S[target]
        self._env = {**threads_env(subject.machine.core_count), **(env or {})}
        self._job: TrialJob = {
            "mode": "trials",
            "target": target,
            "reference": make_reference_spec(folder),
            "tolerances": make_tolerances(folder),
            "case": make_case_spec(folder, workload, folder.kernel.workloads[workload]),
            "cache_bytes": subject.machine.cache_bytes,
        }
        self._stack = ExitStack()
        self._folder = Path()
        self._process: StartedJob[None] | None = None
        self._number = 0
        self.start_count = 0
        """Processes that were started: one, and one more for each build that ended one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def run(
        self, builds: Sequence[Build], best_us: float | None = None, rounds: int = 1
    ) -> TrialOutcome:
        """Check builds on the workload and time them; what ends the process is an outcome, too.

        Args:
            builds: One, or several to be timed in turns; none may have failed.
            best_us: The best time so far.
            rounds: Samples of each where there are several.

        Raises:
            KbError: The process does not start: the reference fails, or there is no memory.
            OperationCancelled: The event given to ``cancel_on`` was set.
        """
        if self._process is None:
            self._job["reference"] = prepare_reference(self._subject, builds[0])
        trial: Trial = {
            "codes": [make_code_spec(self._subject, build) for build in builds],
            "best_us": best_us,
            "budget_s": TRIAL_BUDGET_S if len(builds) == 1 else TURNS_BUDGET_S,
            "rounds": rounds,
        }
        process = self._process or self._start()
        scratch = self._folder / "trial.tmp"
        scratch.write_text(json.dumps(trial), encoding="utf-8")
        answer = self._folder / f"times-{self._number}.json"
        scratch.replace(self._folder / f"trial-{self._number}.json")
        self._number += 1
        deadline = time.monotonic() + (self._timeout_s + TURNS_BUDGET_S) * len(builds)
        while not answer.exists():
            if process.has_ended():
                return self._describe_end("crashed", process)
            if time.monotonic() > deadline:
                return self._describe_end("timed-out", process)
            sleep_cancellable(_POLL_S)
        times: TrialTimes = json.loads(answer.read_text(encoding="utf-8"))
        detail = times["detail"] and to_one_line(times["detail"], _MAX_DETAIL)
        samples = tuple(tuple(one) for one in times["samples_us"])
        return TrialOutcome(times["status"], detail, samples)

    def stop(self) -> None:
        """End the process, if there is one; the next trial starts another."""
        self._process = None
        self._stack.close()

    def _start(self) -> StartedJob[None]:
        self._folder = self._stack.enter_context(scratch_folder())
        process = self._stack.enter_context(start_job(self._job, self._folder, env=self._env))
        self._number = 0
        self.start_count += 1
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (self._folder / "ready").exists():
            if process.has_ended() or time.monotonic() > deadline:
                output = process.finish(0.0).process.output
                self.stop()
                raise KbError(
                    f"the reference could not be run for trials: {to_one_line(output[-400:], 400)}"
                )
            sleep_cancellable(0.01)
        self._process = process
        return process

    def _describe_end(self, status: str, process: StartedJob[None]) -> TrialOutcome:
        """Return the outcome of a build that ended the process, or that hangs; end it."""
        output = process.finish(0.0).process.output
        self.stop()
        lines = [line for line in output.splitlines() if line.strip()]
        detail = lines[-1] if lines and status == "crashed" else None
        if status == "timed-out":
            detail = f"it did not end within {self._timeout_s:g} s"
        return TrialOutcome(status, detail and to_one_line(detail, _MAX_DETAIL), ())
