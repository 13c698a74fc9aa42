"""The runner processes of a bench, also of rivals that load late, and the memory they share."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

from kernelkb.measure.worker.judge.case_buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase
from kernelkb.measure.worker.judge.inputs.memory_plan import plan_case_memory
from kernelkb.measure.worker.judge.procfs import wait_for_start
from kernelkb.measure.worker.judge.runner_process import CANDIDATE, RunnerProcess
from kernelkb.measure.worker.judge.timing.pair_timing import JUDGE
from kernelkb.measure.worker.judge.timing.resource_use import (
    MemoryMeter,
    is_device_memory_short,
    release,
)
from kernelkb.measure.worker.judge.timing.rival_precision import wait_until_ready
from kernelkb.measure.worker.judge.timing.runner_timer import CALL_TIMEOUT_S, RunnerTimer
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError
from kernelkb.measure.worker.shared.messages.jobs import BenchJob
from kernelkb.measure.worker.shared.messages.specs import RunnerSpec

_T = TypeVar("_T")

_MAX_REASON_CHARS = 300


_MEMORY_PARTS = 32
"""How often inputs and outputs must fit into the free memory of a GPU, to load beside a check."""
LEFT_OUT = "left out: the candidate is slower than another baseline by far"


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
        self._at_work, self._pair_count, self._so_far = "", 0, ""
        self.case.judging = self._write_judging

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

    def write_progress(self, runner_name: str, pair_count: int = 0, so_far: str = "") -> None:
        """Say which runner works, and how many pairs were timed, for the message after a timeout.

        Args:
            runner_name: Of the runner.
            pair_count: 0 for as many as before.
            so_far: What the pairs say so far, for who watches; empty for the same as before.
        """
        self._at_work, self._pair_count = runner_name, pair_count or self._pair_count
        self._so_far = so_far or self._so_far
        text = f"{runner_name}\n{self._pair_count}\n{self._so_far}"
        (self._folder / "progress").write_text(text, encoding="utf-8")

    @contextmanager
    def _write_judging(self) -> Iterator[None]:
        """Say that the judge works, and in the end who did before: it is no runner's time."""
        before = self._at_work
        if before == JUDGE:
            yield
            return
        self.write_progress(JUDGE)
        try:
            yield
        finally:
            self.write_progress(before)

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


class RivalPool:
    """Runner processes of a candidate's rivals, of which one has to last.

    Attributes:
        runners: Those that run, by name.
        rejection_reasons: Why others were dropped, by name.
    """

    def __init__(self, runners: dict[str, RunnerProcess]) -> None:
        self.runners = runners
        self.rejection_reasons: dict[str, str] = {}

    def run(
        self, threads: Executor, action: Callable[[RunnerProcess], _T], names: Iterable[str]
    ) -> dict[str, _T]:
        """Run an action on rivals in parallel; return the results of those it works for."""
        rivals = {name: self.runners[name] for name in names if name in self.runners}
        futures = {name: threads.submit(action, rival) for name, rival in rivals.items()}
        results = {}
        for name, future in futures.items():
            with self.drop_on_failure(name):
                results[name] = future.result()
        return results

    @contextmanager
    def drop_on_failure(self, name: str) -> Iterator[None]:
        """Drop a rival that fails within a block, and keep the reason.

        Raises:
            RuntimeError: It was the last one.
            RunnerDied: Another process ended it. Without it a slower one would be the baseline.
            RunnerDied: The same where a GPU's memory did not suffice, half of which is in use.
        """
        try:
            yield
        except (RunnerError, RunnerDied) as error:
            if isinstance(error, RunnerDied) and error.was_killed:
                raise
            self.rejection_reasons[name] = str(error)[:_MAX_REASON_CHARS]
            self.close(name)
            if self._is_short_of_memory(error):
                raise
            if not self.runners:
                first, reason = next(iter(self.rejection_reasons.items()))
                raise RuntimeError(f"no baseline runs; {first}: {reason}") from error

    @staticmethod
    def _is_short_of_memory(error: RunnerDied | RunnerError) -> bool:
        is_short = isinstance(error, RunnerDied) and error.status == "out-of-gpu-memory"
        return is_short and is_device_memory_short("cuda")

    def close(self, *names: str) -> None:
        """End the processes of rivals that are not needed any more."""
        for name in names:
            self.runners.pop(name).close()


def compiles_late(spec: RunnerSpec) -> bool:
    """Return whether a rival's code is compiled when it is called first."""
    return spec["code"].get("compile") is True


class SlowRivals:
    """Rivals that load in the background, apart from the pool until they are wanted.

    Not while the candidate is timed: who times has to ``join`` or ``leave_out`` before.
    """

    def __init__(
        self,
        pool: RivalPool,
        names: set[str],
        make_buffers: Callable[[int], CaseBuffers],
        load: Callable[[RunnerProcess, CaseBuffers], object],
    ) -> None:
        """Take rivals out of the pool, unless no other is in it.

        Args:
            pool: All rivals of the bench.
            names: Those that compile late.
            make_buffers: Returns buffers of a number of slots; called by the thread of ``start``.
            load: Loads a rival and calls it on the buffers; called by another thread.
        """
        self._pool, self._make_buffers, self._load = pool, make_buffers, load
        slow = names & set(pool.runners) if set(pool.runners) - names else set()
        self._runners = {name: pool.runners.pop(name) for name in sorted(slow)}
        self._threads = ThreadPoolExecutor()
        self._futures: dict[str, Future[object]] = {}
        self._buffers: CaseBuffers | None = None
        self._is_early = False

    @property
    def are_loading(self) -> bool:
        """Whether one is at work."""
        return not all(future.done() for future in self._futures.values())

    @property
    def names(self) -> list[str]:
        """Those that are neither in the pool nor left out."""
        return list(self._runners)

    def start_early(self, working_set_bytes: int) -> None:
        """Begin to load them while a check runs on the same GPU, if that has memory for both."""
        free_bytes, _ = torch.cuda.mem_get_info()
        if working_set_bytes * _MEMORY_PARTS <= free_bytes:
            self.start()
            self._is_early = True

    def start(self) -> None:
        """Begin to load them, unless that was done before. They must be ready and stopped."""
        if self._runners and not self._futures:
            buffers = self._buffers = self._make_buffers(2)
            for name, runner in self._runners.items():
                self._futures[name] = self._threads.submit(self._load_and_stop, runner, buffers)

    def _load_and_stop(self, runner: RunnerProcess, buffers: CaseBuffers) -> None:
        self._load(runner, buffers)
        runner.pause()

    def join(self) -> list[str]:
        """Wait for them, and return to the pool those that load; others are dropped.

        Returns:
            Names of those to start again, since they failed beside a check: its candidate may have
            taken their memory.

        Raises:
            RunnerDied: Another process ended one.
        """
        again = []
        wait(self._futures.values())
        self._release_buffers()
        for name, future in self._futures.items():
            runner = self._runners.pop(name)
            if self._is_early and future.exception():
                runner.close()
                again.append(name)
                continue
            self._pool.runners[name] = runner
            with self._pool.drop_on_failure(name):
                future.result()
                runner.pause()
        self._futures.clear()
        return again

    def leave_out(self) -> list[str]:
        """End their processes, and give the reason to the pool; return their names."""
        names = list(self._runners)
        self.close()
        self._pool.rejection_reasons |= dict.fromkeys(names, LEFT_OUT)
        return names

    def close(self) -> None:
        """End their processes; what they are at fails."""
        for runner in self._runners.values():
            runner.kill()
        wait(self._futures.values())
        for runner in self._runners.values():
            runner.close()
        self._release_buffers()
        self._runners.clear()
        self._futures.clear()
        self._threads.shutdown()

    def _release_buffers(self) -> None:
        if self._buffers is not None:
            self._buffers.close()
            self._buffers = None
