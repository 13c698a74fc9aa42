"""Rivals that start beside the bench: a pool of their processes, and those that load late."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch

from kernelkb.measure.worker.judge.buffers.buffers import CaseBuffers
from kernelkb.measure.worker.judge.processes.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError
from kernelkb.measure.worker.shared.messages.specs import RunnerSpec

_T = TypeVar("_T")

_MAX_REASON_CHARS = 300


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
        """
        try:
            yield
        except (RunnerError, RunnerDied) as error:
            if isinstance(error, RunnerDied) and error.was_killed:
                raise
            self.rejection_reasons[name] = str(error)[:_MAX_REASON_CHARS]
            self.close(name)
            if not self.runners:
                first, reason = next(iter(self.rejection_reasons.items()))
                raise RuntimeError(f"no baseline runs; {first}: {reason}") from error

    def close(self, *names: str) -> None:
        """End the processes of rivals that are not needed any more."""
        for name in names:
            self.runners.pop(name).close()


_MEMORY_PARTS = 32
"""How often inputs and outputs must fit into the free memory of a GPU, to load beside a check."""
LEFT_OUT = "left out: the candidate is slower than another baseline by far"


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
