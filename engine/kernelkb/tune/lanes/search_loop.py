"""The loop of every search: propose, build ahead, try, and learn, on one device or on many."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kernelkb.measure.bench.trials import TrialOutcome
from kernelkb.tune.lanes.lane_use import LaneUse
from kernelkb.tune.lanes.trial_recorder import BuiltConfiguration, TrialRecorder
from kernelkb.tune.plan import TuningPlan
from kernelkb.tune.strategies.table import Search

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
