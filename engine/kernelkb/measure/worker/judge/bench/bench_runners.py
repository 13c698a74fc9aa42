"""The runner processes of a bench, and the memory that they share with the judge."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernelkb.measure.worker.judge.bench.rival_precision import wait_until_ready
from kernelkb.measure.worker.judge.bench.slow_rivals import RivalPool, SlowRivals, compiles_late
from kernelkb.measure.worker.judge.buffers.buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase
from kernelkb.measure.worker.judge.inputs.memory_plan import plan_case_memory
from kernelkb.measure.worker.judge.processes.runner_process import RunnerProcess
from kernelkb.measure.worker.judge.processes.wait_for_start import wait_for_start
from kernelkb.measure.worker.judge.timing.peak_memory import (
    MemoryMeter,
    is_device_memory_short,
    release,
)
from kernelkb.measure.worker.judge.timing.runner_timer import CALL_TIMEOUT_S, RunnerTimer
from kernelkb.measure.worker.shared.messages.judge_jobs import BenchJob

CANDIDATE = "candidate"


class BenchRunners:
    """Candidate and rivals of one bench.

    Attributes:
        by_name: All runner processes that were started.
        candidate: The candidate's.
        rivals: Those of its rivals that are loaded, or load fast.
        slow: The other rivals.
        slow_names: Names of all that compile when they are called first, at any precision.
        case: What is computed.
        buffers: The memory that is shared, from the start on.
    """

    def __init__(
        self, job: BenchJob, runners: dict[str, RunnerProcess], folder: Path, memory: MemoryMeter
    ) -> None:
        self._job, self._folder, self._memory = job, folder, memory
        self.by_name, self.candidate = runners, runners[CANDIDATE]
        self.rivals = RivalPool({name: r for name, r in runners.items() if name != CANDIDATE})
        plan = plan_case_memory(job["cases"][0], job["free_bytes"], len(runners))
        self.case = KernelCase(job["target"], job["reference"], job["cases"][0], plan)
        self._rng = random.SystemRandom()  # no runner can compute what comes next
        groups = job["runners"], *job["reduced_rivals"].values()
        self.slow_names = {
            name for group in groups for name, spec in group.items() if compiles_late(spec)
        }
        # Loading in the background takes memory of its own, as much as the task's arrays.
        background = set() if plan.in_pieces else self.slow_names
        self.slow = SlowRivals(self.rivals, background, self._make_buffers, self._load_on)
        self.buffers: CaseBuffers

    def wait_for_start(self) -> None:
        """Wait until all could load their code and the job may start; then allocate the buffers.

        On a GPU, slow rivals load meanwhile. On a CPU they would hold cores that the check needs.

        Raises:
            UnsupportedHost: No runner starts here.
        """
        with ThreadPoolExecutor() as threads:
            list(threads.map(RunnerProcess.wait_ready, self.by_name.values()))
        if self._job["target"] == "cuda":
            self.slow.start_early(self._job["working_set_bytes"])
        wait_for_start(self._folder, [runner.pid for runner in self.by_name.values()])
        self.buffers = self._make_buffers(2)

    def write_progress(self, runner_name: str) -> None:
        """Say which runner works, for the message after a timeout."""
        (self._folder / "progress").write_text(runner_name, encoding="utf-8")

    def _make_buffers(self, slot_count: int) -> CaseBuffers:
        return CaseBuffers(
            self.case,
            self._job["tolerances"],
            1 if self.case.plan.in_pieces else slot_count,
            self._rng,
            flush_bytes=max(4, 2 * self._job["cache_bytes"]),
        )

    def renew_buffers(self, slot_count: int) -> CaseBuffers:
        """Replace the buffers by new ones of some slots; no timer may use the old ones again."""
        self.buffers.close()
        self.buffers = self._make_buffers(slot_count)
        return self.buffers

    def make_timer(self, runner: RunnerProcess) -> RunnerTimer:
        """Bind a loaded runner to the buffers and call it once."""
        return RunnerTimer(runner, self.buffers, self._rng)

    def attach_all(self) -> tuple[RunnerTimer, dict[str, RunnerTimer]]:
        """Bind the candidate and all rivals of the pool to the buffers, for batches of one call."""
        candidate = self._plan_single_calls(self.make_timer(self.candidate))
        rivals = self._run_rivals(
            lambda rival: self._plan_single_calls(self.make_timer(rival)), self.rivals.runners
        )
        return candidate, rivals

    def load_all(self) -> tuple[RunnerTimer, dict[str, RunnerTimer]]:
        """Load the candidate while fast rivals are stopped, then those.

        Rivals that load slowly may be at it already, and are at the end.
        """
        self.write_progress(CANDIDATE)
        candidate = self._load(self.candidate)
        self.write_progress("its baselines")
        self.slow.start()
        return candidate, self._run_rivals(self._load, self.rivals.runners)

    def join_slow(self) -> None:
        """Wait for slow rivals; from here on they are in the pool, or dropped."""
        self.write_progress("its baselines")
        self.start_again(self.slow.join())

    def start_again(self, names: Iterable[str]) -> None:
        """Start rivals in new processes and load them."""
        specs, added = self._job["runners"], {}
        for name in names:
            self.rivals.rejection_reasons.pop(name, None)
            added[name] = self.by_name[name] = RunnerProcess(
                name, specs[name], self._job["target"], self._folder
            )
        self.load_added(added)

    def load_added(self, added: dict[str, RunnerProcess]) -> None:
        """Load rivals that were started late; those that fail are dropped."""
        for runner in (self.candidate, *self.rivals.runners.values()):
            self.release_memory(runner)
        self.rivals.runners |= added
        with ThreadPoolExecutor() as threads:
            self.rivals.run(threads, wait_until_ready, added)
        self._run_rivals(self._load, added)

    def release_memory(self, runner: RunnerProcess) -> None:
        """Have a runner return what it caches, where memory is short; it is stopped then.

        What is free may decide which algorithm a library takes: beside the candidate's cache, with
        13 GB of 80 free instead of 27, a convolution took 6 % longer as a baseline (H100).
        """
        if self.case.plan.in_pieces or is_device_memory_short(self._job["target"]):
            release(runner)

    def _run_rivals(
        self, action: Callable[[RunnerProcess], RunnerTimer], names: Iterable[str]
    ) -> dict[str, RunnerTimer]:
        """Run an action on rivals: side by side, or one by one where memory is to be saved."""
        with ThreadPoolExecutor(1 if self.case.plan.in_pieces else None) as threads:
            return self.rivals.run(threads, action, list(names))

    def _load(self, runner: RunnerProcess) -> RunnerTimer:
        timer = self._load_on(runner, self.buffers)
        self.release_memory(runner)
        return timer

    def _load_on(self, runner: RunnerProcess, buffers: CaseBuffers) -> RunnerTimer:
        self._memory.note_ready(runner)
        runner.ask({"command": "load"}, CALL_TIMEOUT_S)
        return self._plan_single_calls(RunnerTimer(runner, buffers, self._rng))

    def _plan_single_calls(self, timer: RunnerTimer) -> RunnerTimer:
        timer.plan_batches(1, graph=False)
        return timer
