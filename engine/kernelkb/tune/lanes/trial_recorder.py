"""Decides which builds need a trial, and writes what came of each to the journal and the search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernelkb.cluster.tasks import Task
from kernelkb.measure.bench.trials import TrialOutcome
from kernelkb.model.kernels.tuning import TrialStatus, TuningTrial
from kernelkb.model.records.measurement import Build
from kernelkb.record.tuning_journal import TuningJournal
from kernelkb.tune.plan import TuningPlan
from kernelkb.tune.strategies.table import Search

ReportTrial = Callable[[TuningTrial, TuningTrial | None], None]
"""Called after each trial, with the fastest so far."""


@dataclass(frozen=True, slots=True)
class BuiltConfiguration:
    """A configuration whose build has ended."""

    index: int
    """Among the feasible ones."""
    build: Build
    code: str | None
    """Digest of its machine code; None where it has none."""
    seconds: float
    task: Task | None = None
    """On a cluster: its result is the library, which stays on the host that built it."""


class TrialRecorder:
    """The trials of one search: what they say to the next builds, the search and the journal.

    Attributes:
        best: The fastest trial so far; None before one was timed.
    """

    def __init__(
        self, plan: TuningPlan, search: Search, journal: TuningJournal, report: ReportTrial
    ) -> None:
        self._plan, self._search, self._journal, self._report = plan, search, journal, report
        self._codes = {
            trial.code: trial
            for trial in journal.trials
            if trial.code and trial.status != "same-code"
        }
        timed = [trial for trial in journal.trials if trial.time_us]
        self.best = min(timed, key=_get_time, default=None)

    @property
    def best_us(self) -> float | None:
        """The best time so far."""
        return self.best.time_us if self.best else None

    def judge_build(self, built: BuiltConfiguration) -> TrialStatus | None:
        """Return why a build needs no trial; None: it needs one."""
        if built.build.status == "failed":
            return "build-failed"
        if built.code is not None and built.code in self._codes:
            return "same-code"
        return "spills" if count_spills(built.build) else None

    def add_decided(self, built: BuiltConfiguration, status: TrialStatus) -> None:
        """Record a configuration that needs no trial; see ``judge_build``."""
        fields: dict[str, Any] = {}
        if status == "build-failed":
            fields["detail"] = built.build.error
        elif status == "same-code":
            same = self._codes[str(built.code)]
            fields |= {"detail": f"as trial {same.number}", "time_us": same.time_us}
        self._add(built, status, fields)

    def add_outcome(
        self,
        built: BuiltConfiguration,
        outcome: TrialOutcome,
        trial_s: float,
        lane: str | None = None,
    ) -> None:
        """Record what a trial found.

        Args:
            built: What was tried.
            outcome: Of the trial.
            trial_s: Time on the device.
            lane: UUID of the device, in a search on several.
        """
        samples = outcome.samples_us[0] if outcome.samples_us else ()
        fields = {
            "detail": outcome.detail,
            "time_us": sorted(samples)[len(samples) // 2] if samples else None,
            "samples_us": tuple(round(one, 4) for one in samples),
            "trial_s": round(trial_s, 4),
            "lane": lane,
        }
        self._add(built, outcome.status, fields)

    def _add(self, built: BuiltConfiguration, status: str, fields: dict[str, Any]) -> None:
        resources = built.build.resources
        trial = TuningTrial.model_validate(
            {
                "number": len(self._journal.trials),
                "configuration": self._plan.space.get_configuration(built.index),
                "status": status,
                "registers": max((one.registers for one in resources), default=None),
                "spill_bytes": count_spills(built.build),
                "code": built.code,
                "build_s": round(built.seconds, 3),
                **fields,
            }
        )
        self._search.record(built.index, trial.time_us)
        if trial.code and trial.status != "same-code":
            self._codes[trial.code] = trial
        self._journal.add(trial)
        if trial.time_us and (self.best is None or trial.time_us < _get_time(self.best)):
            self.best = trial
        self._report(trial, self.best)


def count_spills(built: Build) -> int:
    """Return the bytes that a thread of a build spills, stored and loaded; 0 without resources."""
    return max((one.spill_store_bytes + one.spill_load_bytes for one in built.resources), default=0)


def _get_time(trial: TuningTrial) -> float:
    return trial.time_us if trial.time_us is not None else float("inf")
