"""The rivals of a bench that still run, and why the others were dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TypeVar

from kernelkb.measure.worker.judge.processes.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError

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
