"""The loop of every search, on one device or on many: propose, build ahead, try, and learn."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from kernelkb.cluster.lanes import Lane
from kernelkb.cluster.tasks import Task
from kernelkb.measure.bench.trials import TrialOutcome
from kernelkb.model.kernels.tuning import (
    ConfirmedConfiguration,
    LaneSummary,
    TrialStatus,
    TuningTrial,
)
from kernelkb.model.records.measurement import Bench, Build
from kernelkb.record.tuning_journal import TuningJournal
from kernelkb.tune.plan import TuningPlan
from kernelkb.tune.strategies.table import Search

SLOW_RATIO = 1.05
"""Chosen: cards of one model differ by 1 to 2 %; a card that is throttled or shared by more."""

ReportTrial = Callable[[TuningTrial, TuningTrial | None], None]
"""Called after each trial, with the fastest so far."""

ROUNDS = 60
"""Of measurements in turns."""
_BATCH_S = 0.5
"""Trials of one task take so long at least, where they are short. A task costs some 20 ms."""
_WAIT_S = 0.1


class DeviceSearch:
    """The search on all lanes of one model of device: its plan, its trials, its lanes.

    Attributes:
        lanes: What each lane did, by UUID.
    """

    def __init__(
        self, plan: TuningPlan, search: Search, recorder: TrialRecorder, lanes: Iterable[LaneUse]
    ) -> None:
        self.plan, self.search, self.recorder = plan, search, recorder
        self.lanes = {lane.uuid: lane for lane in lanes}
        self.ready: deque[BuiltConfiguration] = deque()
        """Built configurations that wait for a lane."""
        self.building_count = 0
        self.started_count = 0

    @property
    def cc(self) -> str | None:
        """Compute capability that its configurations are compiled for; None: the CPU."""
        machine = self.plan.bench_target.subject.machine
        return machine.cc if machine.target == "cuda" else None

    @property
    def open_lanes(self) -> list[LaneUse]:
        """The lanes that trials may go to."""
        return [lane for lane in self.lanes.values() if lane.is_open]

    @property
    def has_work(self) -> bool:
        """Whether something is built, waits or runs."""
        queued = any(one.queued_count or one.is_waiting for one in self.lanes.values())
        return bool(queued or self.building_count or self.ready)


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


class Tried(NamedTuple):
    """A configuration that was tried on a lane."""

    built: BuiltConfiguration
    outcome: TrialOutcome
    trial_s: float
    """While the device was held."""


@dataclass(frozen=True, slots=True)
class BuildEnded:
    """The build of a configuration is over, well or not."""

    search: DeviceSearch
    built: BuiltConfiguration


@dataclass(frozen=True, slots=True)
class TrialsEnded:
    """A lane has tried what it was given."""

    search: DeviceSearch
    lane: str | None
    """UUID of the device; None: the only one."""
    tried: tuple[Tried, ...]
    left: tuple[BuiltConfiguration, ...] = ()
    """Not tried, because the lane died before."""


class Compared(NamedTuple):
    """Configurations that were timed in turns."""

    samples_us: Sequence[Sequence[float]]
    """Of each configuration."""
    lane: str | None = None
    """UUID of the device; None: the only one."""


class Confirmed(NamedTuple):
    """The fastest configurations of a search by a second measurement."""

    configurations: tuple[ConfirmedConfiguration, ...] = ()
    """Fastest first."""
    default_us: float | None = None
    lane: str | None = None
    """UUID of the device; None: the only one."""


class Lanes(Protocol):
    """Where builds and trials run: in this process, or on the workers of a cluster.

    One thread calls it. A lane runs one trial at a time, and nothing else on its device.
    """

    most_queued: int
    """Tasks that a lane takes at once, with the one that runs."""
    most_in_batch: int
    """Trials of one task."""
    least_ahead: int
    """Builds that may wait for the lanes, however short their queues are."""

    @property
    def build_slots(self) -> int:
        """How many builds run at once."""

    def admit(self, searches: Sequence[DeviceSearch]) -> None:
        """Open the lanes to trials, also those that join later; called in every round.

        Raises:
            KbError: The device cannot be described.
        """

    def submit_build(self, search: DeviceSearch, index: int) -> None:
        """Start the build of a configuration; ``wait`` returns its end."""

    def submit_trials(
        self, search: DeviceSearch, lane: LaneUse, batch: Sequence[BuiltConfiguration]
    ) -> None:
        """Give built configurations to a lane; ``wait`` returns their end."""

    def wait(self, timeout_s: float) -> list[BuildEnded | TrialsEnded]:
        """Return what has ended since the last call; empty: nothing runs, or time is up.

        Raises:
            KbError: No lane is left, or the reference fails.
        """

    def stop(self) -> None:
        """Forget what has not ended."""

    def compare(
        self, asked: Mapping[DeviceSearch, Sequence[Mapping[str, int]]]
    ) -> dict[DeviceSearch, Compared]:
        """Time the configurations of each search in turns; one that fails costs its search."""

    def judge(self, confirmed: Mapping[DeviceSearch, Confirmed]) -> dict[DeviceSearch, Bench]:
        """Check and time the fastest of each search as ``kb bench`` does.

        Raises:
            KbError: The reference or a baseline fails.
        """


def run_searches(
    lanes: Lanes, searches: Sequence[DeviceSearch], deadline: float, max_trials: int | None
) -> None:
    """Propose, build and try configurations until the deadline, the limit, or all were tried.

    Args:
        lanes: Where builds and trials run.
        searches: One for each model of device.
        deadline: On the monotonic clock; what runs on other hosts then is not waited for.
        max_trials: Most new trials of each search.

    Raises:
        KbError: No lane is left, or the reference fails.
    """
    while time.monotonic() < deadline:
        lanes.admit(searches)
        for search in searches:
            _start_builds(lanes, search, max_trials, lanes.build_slots / len(searches))
            _start_trials(lanes, search)
        ended = lanes.wait(_WAIT_S)
        for one in ended:
            _learn(one)
        if not ended and not any(search.has_work for search in searches):
            break
    for search in searches:
        for lane in search.lanes.values():
            lane.stop()
    lanes.stop()


def _start_builds(lanes: Lanes, search: DeviceSearch, max_trials: int | None, slots: float) -> None:
    queued = lanes.most_queued * len(search.lanes) * _size_batch(lanes, search)
    most = slots + max(queued, lanes.least_ahead)
    while search.building_count + len(search.ready) < most:
        if max_trials is not None and search.started_count >= max_trials:
            return
        index = search.search.propose()
        if index is None:
            return
        lanes.submit_build(search, index)
        search.building_count += 1
        search.started_count += 1


def _start_trials(lanes: Lanes, search: DeviceSearch) -> None:
    """Give the builds that are ready to the lanes with the fewest tasks, in batches."""
    while search.ready:
        lane = min(search.open_lanes, key=lambda one: one.queued_count, default=None)
        if lane is None or lane.queued_count >= lanes.most_queued:
            return
        share = -(-len(search.ready) // len(search.open_lanes))
        batch = _take_ready(search, min(share, _size_batch(lanes, search)))
        if not batch:
            return
        lanes.submit_trials(search, lane, batch)
        lane.add()


def _size_batch(lanes: Lanes, search: DeviceSearch) -> int:
    """Return how many trials make a task long beside what a task costs."""
    means = [lane.mean_busy_s for lane in search.open_lanes if lane.mean_busy_s]
    return max(1, min(lanes.most_in_batch, int(_BATCH_S / max(means)))) if means else 1


def _take_ready(search: DeviceSearch, count: int) -> list[BuiltConfiguration]:
    """Take builds that still need a trial, by what was tried since they were ready."""
    batch: list[BuiltConfiguration] = []
    while search.ready and len(batch) < count:
        built = search.ready.popleft()
        decided = search.recorder.judge_build(built)
        if decided:
            search.recorder.add_decided(built, decided)
        else:
            batch.append(built)
    return batch


def _learn(ended: BuildEnded | TrialsEnded) -> None:
    """Record what is decided; what still needs a trial waits for a lane."""
    search = ended.search
    if isinstance(ended, TrialsEnded):
        for built, outcome, trial_s in ended.tried:
            search.recorder.add_outcome(built, outcome, trial_s, ended.lane)
        search.ready.extendleft(reversed(ended.left))
        return
    search.building_count -= 1
    decided = search.recorder.judge_build(ended.built)
    if decided:
        search.recorder.add_decided(ended.built, decided)
    else:
        search.ready.append(ended.built)


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
    def trials(self) -> Sequence[TuningTrial]:
        """Of this run and of earlier ones, which come first."""
        return self._journal.trials

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


class LaneUse:
    """One lane: its baseline, its trials, and for how long it was busy.

    Attributes:
        uuid: Of the device.
        model: Of the device.
        queued_count: Tasks at the lane, with the one that runs.
        left_out: Why it gets no trials; None where it does, or is being checked.
        is_waiting: It is being checked.
        is_compared: Its time was held against those of the other lanes.
        is_lost: Its worker is gone.
        check_count: How often the default was timed on it.
        samples: Times of the default on it, us; empty where that was not measured.
    """

    def __init__(self, lane: Lane) -> None:
        self.uuid, self.model, self.host = lane.uuid, lane.model, lane.host
        self.queued_count = 0
        self.left_out: str | None = None
        self.is_waiting = True
        self.is_compared = False
        self.is_lost = False
        self.check_count = 0
        self.samples: tuple[float, ...] = ()
        self._trial_count = 0
        self._busy_s = 0.0
        self._opened_at: float | None = None
        self._open_s = 0.0
        self._sent: deque[float] = deque()
        self._last_end: float | None = None
        self._queued_busy_s = 0.0
        self._gap_s = 0.0

    @property
    def is_open(self) -> bool:
        """Whether trials may go to it."""
        return self.is_compared and not self.is_waiting and self.left_out is None

    @property
    def baseline_us(self) -> float | None:
        """Time of the default on it; None where that was not measured."""
        return statistics.median(self.samples) if self.samples else None

    def finish_check(self, samples: Sequence[float]) -> None:
        """Take the times of the default on it; none: it could not be timed."""
        self.samples = tuple(samples)
        self.is_waiting, self.is_lost, self.left_out = False, False, None

    def open(self) -> None:
        """Let trials go to it."""
        if self._opened_at is None:
            self._opened_at = time.monotonic()
        self.is_compared = True

    def leave_out(self, reason: str) -> None:
        """Give it no trials any more."""
        self.stop()
        self.is_waiting, self.left_out = False, reason

    def lose(self, reason: str) -> None:
        """Note that its worker is gone."""
        self.leave_out(reason)
        self.queued_count, self.is_lost = 0, True
        self._sent.clear()
        self._last_end = None

    def rejoin(self) -> None:
        """Its worker is back, and is checked like a new one."""
        self.is_waiting, self.is_lost, self.left_out = True, False, None
        self.is_compared = False

    @property
    def mean_busy_s(self) -> float | None:
        """How long a trial takes on average; None before one has ended."""
        return self._busy_s / self._trial_count if self._trial_count else None

    def add(self) -> None:
        """Count a task that was sent to it."""
        self.queued_count += 1
        self._sent.append(time.time())

    def remove(self, trial_count: int, span: tuple[float, float] | None) -> None:
        """Count a task that has ended.

        Args:
            trial_count: Its trials.
            span: When it began and ended, by the clock of its host; None: it did not end well.
        """
        self.queued_count = max(0, self.queued_count - 1)
        sent = self._sent.popleft() if self._sent else None
        self._trial_count += trial_count
        if span is None:
            self._last_end = None
            return
        began, ended = span
        self._busy_s += ended - began
        if self._last_end is not None and sent is not None and sent < self._last_end:
            self._queued_busy_s += ended - began
            self._gap_s += max(0.0, began - self._last_end)
        self._last_end = ended

    def stop(self) -> None:
        """End the time during which it could be busy."""
        if self._opened_at is not None:
            self._open_s += time.monotonic() - self._opened_at
        self._opened_at = None

    def summarize(self) -> LaneSummary:
        """Return what the result says of it."""
        queued_s = self._queued_busy_s + self._gap_s
        return LaneSummary(
            uuid=self.uuid,
            host=self.host,
            model=self.model,
            baseline_us=self.baseline_us,
            trial_count=self._trial_count,
            available_s=round(self._open_s, 3),
            busy_share=min(1.0, self._busy_s / self._open_s) if self._open_s else 0.0,
            busy_share_while_queued=self._queued_busy_s / queued_s if queued_s else None,
            left_out=self.left_out,
        )


def find_slow_lanes(lanes: Iterable[LaneUse]) -> dict[str, str]:
    """Return the lanes on which the default fails, or is slower beyond the spread of its times.

    Args:
        lanes: All of one model.

    Returns:
        Why, by UUID.
    """
    checked = [lane for lane in lanes if not lane.is_waiting and lane.left_out is None]
    timed = [lane for lane in checked if lane.samples]
    if not timed:
        return {}
    slow = {lane.uuid: "the default cannot be timed on it" for lane in checked if not lane.samples}
    fastest = min(timed, key=lambda lane: statistics.median(lane.samples))
    best_us = statistics.median(fastest.samples)
    for lane in timed:
        ratio = statistics.median(lane.samples) / best_us
        if ratio > SLOW_RATIO and _get_quartile(lane, 0) > _get_quartile(fastest, 2):
            slow[lane.uuid] = f"slow: {ratio:.2f} times the default's time on {fastest.uuid}"
    return slow


def _get_quartile(lane: LaneUse, index: int) -> float:
    if len(lane.samples) < 2:
        return lane.samples[0]
    return statistics.quantiles(lane.samples, n=4)[index]
