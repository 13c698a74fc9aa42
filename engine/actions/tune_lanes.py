"""Two lanes of a search: builds on all cores, trials one at a time on the device."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import NamedTuple, Self

from kernelkb.actions.tune_plan import TuningPlan
from kernelkb.measure.build.build import build
from kernelkb.measure.build.machine_code import find_machine_code
from kernelkb.measure.machine.device_lock import lock_device
from kernelkb.measure.trials import TrialProcess
from kernelkb.model.measurement import Build
from kernelkb.model.tuning import TrialStatus, TuningTrial
from kernelkb.profiles.code_digest import digest_code
from kernelkb.record.tuning_journal import TuningJournal
from kernelkb.tune.search import Search

_BUILDS_AHEAD = 2
"""Builds that wait for the device, for each core that builds."""
_WAIT_S = 0.2


class BuiltConfiguration(NamedTuple):
    """A configuration that the first lane has finished."""

    place: int
    """Among the feasible ones."""
    build: Build
    code: str | None
    seconds: float


class TuningLanes:
    """A context: builds that are running are waited for after the block."""

    def __init__(
        self, plan: TuningPlan, search: Search, process: TrialProcess, journal: TuningJournal
    ) -> None:
        self._plan, self._search, self._process = plan, search, process
        self._journal = journal
        cores = plan.bench_target.subject.machine.core_count
        self._builder_count = max(1, cores - 1)
        self._pool = ThreadPoolExecutor(self._builder_count)
        self._building: set[Future[BuiltConfiguration]] = set()
        self._started_count = 0
        self._codes = {
            trial.code: trial
            for trial in journal.trials
            if trial.code and trial.status != "same-code"
        }
        timed = [trial for trial in journal.trials if trial.time_us]
        self._best = min(timed, key=_get_time, default=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def run(
        self,
        deadline: float,
        max_trials: int | None,
        report: Callable[[TuningTrial, TuningTrial | None], None],
    ) -> None:
        """Propose, build and try configurations until the deadline, the limit, or all were tried.

        Args:
            deadline: On the monotonic clock; builds that are running then are not waited for.
            max_trials: Most new trials.
            report: Called after each trial, with the fastest so far.
        """
        while time.monotonic() < deadline:
            self._start_builds(max_trials)
            if not self._building:
                return
            ended, _ = wait(self._building, timeout=_WAIT_S, return_when=FIRST_COMPLETED)
            for future in ended:
                self._building.remove(future)
                trial = self._try(future.result())
                self._journal.add(trial)
                if trial.time_us and (self._best is None or trial.time_us < _get_time(self._best)):
                    self._best = trial
                report(trial, self._best)
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

    def _try(self, built: BuiltConfiguration) -> TuningTrial:
        """Try a built configuration on the device, unless its build already decides."""
        decided = self._judge_build(built)
        trial = self._make_trial(built, decided) if decided else self._time(built)
        self._search.record(built.place, trial.time_us)
        if trial.code and trial.status != "same-code":
            self._codes[trial.code] = trial
        return trial

    def _time(self, built: BuiltConfiguration) -> TuningTrial:
        best_us = _get_time(self._best) if self._best else None
        with lock_device(self._plan.bench_target.subject.machine):
            started = time.monotonic()
            outcome = self._process.run([built.build], best_us)
            seconds = time.monotonic() - started
        samples = outcome.samples_us[0] if outcome.samples_us else ()
        return self._make_trial(
            built,
            outcome.status,
            detail=outcome.detail,
            time_us=sorted(samples)[len(samples) // 2] if samples else None,
            samples_us=tuple(round(one, 4) for one in samples),
            trial_s=round(seconds, 4),
        )

    def _judge_build(self, built: BuiltConfiguration) -> TrialStatus | None:
        """Return why a build needs no trial; None: it needs one."""
        if built.build.status == "failed":
            return "build-failed"
        if built.code is not None and built.code in self._codes:
            return "same-code"
        return "spills" if _count_spills(built.build) else None

    def _make_trial(self, built: BuiltConfiguration, status: str, **fields: object) -> TuningTrial:
        if status == "build-failed":
            fields["detail"] = built.build.error
        elif status == "same-code":
            same = self._codes[str(built.code)]
            fields |= {"detail": f"as trial {same.number}", "time_us": same.time_us}
        resources = built.build.resources
        registers = max((one.registers for one in resources), default=None)
        return TuningTrial.model_validate(
            {
                "number": len(self._journal.trials),
                "configuration": self._plan.space.get_configuration(built.place),
                "status": status,
                "registers": registers,
                "spill_bytes": _count_spills(built.build),
                "code": built.code,
                "build_s": round(built.seconds, 3),
                **fields,
            }
        )


def _count_spills(built: Build) -> int:
    return max((one.spill_store_bytes + one.spill_load_bytes for one in built.resources), default=0)


def _get_time(trial: TuningTrial) -> float:
    return trial.time_us if trial.time_us is not None else float("inf")
