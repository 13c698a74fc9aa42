"""Two lanes of a search: builds on all cores, trials one at a time on the device."""

from __future__ import annotations

import contextvars
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self

from kernelkb.measure.bench.trials import TrialProcess
from kernelkb.measure.build.build import build
from kernelkb.measure.build.machine_code import find_machine_code
from kernelkb.measure.machine.device_lock import lock_device
from kernelkb.profiles.disassembler import digest_code
from kernelkb.tune.lanes.trial_recorder import BuiltConfiguration, TrialRecorder
from kernelkb.tune.plan import TuningPlan
from kernelkb.tune.strategies.table import Search

_BUILDS_AHEAD = 2
"""Builds that wait for the device, for each core that builds."""
_WAIT_S = 0.2


class TuningLanes:
    """A context: builds that are running are waited for after the block."""

    def __init__(
        self, plan: TuningPlan, search: Search, process: TrialProcess, recorder: TrialRecorder
    ) -> None:
        self._plan, self._search, self._process = plan, search, process
        self._recorder = recorder
        cores = plan.bench_target.subject.machine.core_count
        self._builder_count = max(1, cores - 1)
        self._pool = ThreadPoolExecutor(self._builder_count)
        self._building: set[Future[BuiltConfiguration]] = set()
        self._started_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def run(self, deadline: float, max_trials: int | None) -> None:
        """Propose, build and try configurations until the deadline, the limit, or all were tried.

        Args:
            deadline: On the monotonic clock; builds that are running then are not waited for.
            max_trials: Most new trials.
        """
        while time.monotonic() < deadline:
            self._start_builds(max_trials)
            if not self._building:
                return
            ended, _ = wait(self._building, timeout=_WAIT_S, return_when=FIRST_COMPLETED)
            for future in ended:
                self._building.remove(future)
                self._try(future.result())
                if time.monotonic() >= deadline:
                    return
                self._start_builds(max_trials)

    def _start_builds(self, max_trials: int | None) -> None:
        while len(self._building) < self._builder_count * _BUILDS_AHEAD:
            if max_trials is not None and self._started_count >= max_trials:
                return
            index = self._search.propose()
            if index is None:
                return
            context = contextvars.copy_context()
            future = self._pool.submit(context.run, self._build, index)
            self._building.add(future)
            self._started_count += 1

    def _build(self, index: int) -> BuiltConfiguration:
        """Build one configuration."""
        started = time.monotonic()
        bench_target = self._plan.bench_target
        defines = self._plan.format_trial_defines(self._plan.space.get_configuration(index))
        built = build(bench_target.subject, bench_target.build_root, defines)
        code = None
        if built.status != "failed" and built.target == "cuda":
            code = digest_code(find_machine_code(built))
        return BuiltConfiguration(index, built, code, time.monotonic() - started)

    def _try(self, built: BuiltConfiguration) -> None:
        """Try a built configuration on the device, unless its build already decides."""
        decided = self._recorder.judge_build(built)
        if decided:
            self._recorder.add_decided(built, decided)
            return
        with lock_device(self._plan.bench_target.subject.machine):
            started = time.monotonic()
            outcome = self._process.run([built.build], self._recorder.best_us)
            seconds = time.monotonic() - started
        self._recorder.add_outcome(built, outcome, seconds)
