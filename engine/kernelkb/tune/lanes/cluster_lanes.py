"""The lanes of a cluster: builds on any host, checks of each device, trials alone on one device."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelkb.cluster.cluster import Cluster
from kernelkb.cluster.lanes import Lane
from kernelkb.cluster.tasks import LanesLostError, Task, WorkerDiedError
from kernelkb.errors import KbError
from kernelkb.measure.bench.trials import TrialOutcome
from kernelkb.model.records.measurement import Build
from kernelkb.tune.lanes.lane_tasks import (
    LaneBatch,
    LaneFacts,
    LaneTrial,
    SearchJob,
    WorkerBuild,
    build_configuration,
    compare_configurations,
    describe_lane,
    summarize_build,
    time_configurations,
)
from kernelkb.tune.lanes.lane_use import LaneUse, find_slow_lanes
from kernelkb.tune.lanes.search_loop import BuildEnded, DeviceSearch, TrialsEnded, Tried
from kernelkb.tune.lanes.trial_recorder import BuiltConfiguration

_LOOK_S = 2.0
_CHECK_ROUNDS = 60
_WARM_UP_ROUNDS = 40
"""Of these, first and not used: an idle GPU needs a while to reach its clock."""
_MOST_CHECKS = 3
"""A device that is slow, or whose worker dies, each time is left out."""


@dataclass(frozen=True, slots=True)
class _Summary:
    """What a build says without its library, which stays where it was built."""

    search: DeviceSearch
    index: int
    build: Task


@dataclass(frozen=True, slots=True)
class _Check:
    """The default is timed on a lane."""

    search: DeviceSearch
    lane: str
    build: Task


@dataclass(frozen=True, slots=True)
class _Trials:
    search: DeviceSearch
    lane: str
    batch: tuple[BuiltConfiguration, ...]


class ClusterLanes:
    """The workers of a cluster, for one search of each model of device.

    The devices of a model time the default first; one that is slow beside the others, or whose
    worker dies each time, gets no trials.
    """

    most_queued = 2  # the next one's files are there when it begins
    most_in_batch = 16
    least_ahead = 0

    def __init__(self, cluster: Cluster, sources: Task, job: SearchJob) -> None:
        """Serve searches on a cluster.

        Args:
            cluster: Of ``open_cluster``.
            sources: The task whose result is the kernel's files.
            job: What the workers have to know of the search.
        """
        self._cluster, self._sources, self._job = cluster, sources, job
        self._searches: Sequence[DeviceSearch] = ()
        self._looked_at = time.monotonic()
        self._build_slots = cluster.build_slots
        self._asked: set[str] = set()
        """Lanes that have joined, and were asked what they are."""

    @property
    def build_slots(self) -> int:
        """The cores of all hosts that compile."""
        return self._build_slots

    def admit(self, searches: Sequence[DeviceSearch]) -> None:
        """Time the default on every lane; then take in lanes that join or come back."""
        if not self._searches:
            self._searches = searches
            for search in searches:
                self._check(search, search.lanes.values())
        elif time.monotonic() - self._looked_at >= _LOOK_S:
            self._looked_at = time.monotonic()
            self._look_for_lanes()

    def submit_build(self, search: DeviceSearch, index: int) -> None:
        """Start a build, whose library stays on its host until a lane needs it."""
        build = self._submit_build(search, search.plan.space.get_configuration(index))
        label = _Summary(search, index, build)
        self._cluster.submit_build(summarize_build, build, label=label, fetch=True)

    def submit_trials(
        self, search: DeviceSearch, lane: LaneUse, batch: Sequence[BuiltConfiguration]
    ) -> None:
        """Give built configurations to a lane, as one task."""
        self._cluster.submit_timed(
            lane.uuid,
            time_configurations,
            *(self._sources, self._job, search.recorder.best_us),
            *(built.task for built in batch),
            label=_Trials(search, lane.uuid, tuple(batch)),
        )

    def wait(self, timeout_s: float) -> list[BuildEnded | TrialsEnded]:
        """Return what has ended; checks and lanes that joined are dealt with here."""
        ended: list[BuildEnded | TrialsEnded] = []
        for task in self._cluster.wait(timeout_s):
            if isinstance(task.label, _Summary):
                ended.append(_finish_build(task, task.label))
            elif isinstance(task.label, _Trials):
                ended.append(self._finish_trials(task, task.label))
            elif isinstance(task.label, _Check):
                self._finish_check(task, task.label)
            elif isinstance(task.label, Lane):
                self._add_lane(task, task.label)
        return ended

    def stop(self) -> None:
        """Cancel what has not ended; a trial that runs is left to its end."""
        self._cluster.cancel()

    def _submit_build(self, search: DeviceSearch, configuration: Mapping[str, int]) -> Task:
        defines = search.plan.format_trial_defines(configuration)
        return self._cluster.submit_build(
            build_configuration, self._sources, self._job, search.cc, defines
        )

    def _check(
        self, search: DeviceSearch, lanes: Iterable[LaneUse], build: Task | None = None
    ) -> None:
        """Time the default on lanes; it is built first where no build of it is given."""
        build = build or self._submit_build(search, search.plan.default)
        for lane in lanes:
            self._cluster.submit_timed(
                lane.uuid,
                compare_configurations,
                *(self._sources, self._job, _CHECK_ROUNDS, build, build),
                label=_Check(search, lane.uuid, build),
            )

    def _finish_trials(self, task: Task, label: _Trials) -> TrialsEnded:
        search, lane, batch = label.search, label.search.lanes[label.lane], label.batch
        if isinstance(task.error, LanesLostError):
            lane.lose(str(task.error))
            _require_lanes(search)
            return TrialsEnded(search, label.lane, (), batch)
        if isinstance(task.error, WorkerDiedError):
            lane.remove(0, None)
            blamed = int(task.error.note or 0)
            outcome = TrialOutcome("crashed", "it ended the worker that tried it", ())
            left = (*batch[:blamed], *batch[blamed + 1 :])
            return TrialsEnded(search, label.lane, (Tried(batch[blamed], outcome, 0.0),), left)
        ended: LaneBatch = task.result()
        lane.remove(len(ended.trials), ended.span)
        tried = (Tried(one, *trial) for one, trial in zip(batch, ended.trials, strict=True))
        return TrialsEnded(search, label.lane, tuple(tried))

    def _finish_check(self, task: Task, label: _Check) -> None:
        search, lane = label.search, label.search.lanes[label.lane]
        lane.check_count += 1
        if isinstance(task.error, WorkerDiedError):  # it is back
            if lane.check_count < _MOST_CHECKS:
                self._check(search, [lane])  # with a new build: that one's worker may be it
                return
            lane.leave_out("its worker died each time that the default was timed")
        elif isinstance(task.error, LanesLostError):
            lane.lose(str(task.error))
        else:
            checked: LaneTrial = task.result()
            times = checked.outcome.samples_us
            lane.finish_check([one for turns in times for one in turns[_WARM_UP_ROUNDS:]])
        if not any(one.is_waiting for one in search.lanes.values()):
            self._open_lanes(search, label.build)

    def _open_lanes(self, search: DeviceSearch, build: Task) -> None:
        """Open the lanes that are as fast as the others, and check the slow ones again."""
        reasons = find_slow_lanes(search.lanes.values())
        for lane in search.lanes.values():
            if lane.left_out is not None:
                continue
            if lane.uuid not in reasons:
                lane.open()
            elif lane.check_count < _MOST_CHECKS:
                lane.rejoin()
                self._check(search, [lane], build)
            else:
                lane.leave_out(reasons[lane.uuid])
        _require_lanes(search)

    def _look_for_lanes(self) -> None:
        """Count the builders again, and take in a lane that has joined or come back."""
        self._build_slots = self._cluster.build_slots or self._build_slots
        lanes = self._cluster.lanes
        known = {uuid for search in self._searches for uuid in search.lanes} | self._asked
        for found in lanes:
            if found.uuid not in known:
                self._asked.add(found.uuid)
                arguments = (self._sources, self._job)
                self._cluster.submit_timed(found.uuid, describe_lane, *arguments, label=found)
        there = {one.uuid for one in lanes}
        for search in self._searches:
            for lane in search.lanes.values():
                if lane.is_lost and lane.uuid in there:
                    lane.rejoin()
                    lane.check_count = 0
                    self._check(search, [lane])

    def _add_lane(self, task: Task, lane: Lane) -> None:
        """Take in a lane that has joined, where its times can be compared with others'."""
        if task.error is not None:
            return
        facts: LaneFacts = task.result()
        for search in self._searches:
            if search.plan.is_comparable(facts.machine, facts.driver, facts.build_digest):
                use = search.lanes[lane.uuid] = LaneUse(lane)
                self._check(search, [use])


def _finish_build(task: Task, label: _Summary) -> BuildEnded:
    if isinstance(task.error, WorkerDiedError):
        return BuildEnded(label.search, _fail_build(label.search, label.index))
    summary: WorkerBuild = task.result()
    built = BuiltConfiguration(
        label.index, summary.build, summary.code, summary.seconds, label.build
    )
    return BuildEnded(label.search, built)


def _fail_build(search: DeviceSearch, index: int) -> BuiltConfiguration:
    """Return a failed build for a configuration that ended its compile worker."""
    subject = search.plan.bench_target.subject
    fields: dict[str, Any] = {
        **subject.identity_fields,
        "status": "failed",
        "seconds": 0.0,
        "library": None,
        "directory": "",
        "command": "",
        "error": "it ended the worker that compiled it",
    }
    return BuiltConfiguration(index, Build.model_validate(fields), None, 0.0)


def _require_lanes(search: DeviceSearch) -> None:
    if not search.open_lanes and not any(one.is_waiting for one in search.lanes.values()):
        reasons = {one.left_out for one in search.lanes.values() if one.left_out}
        raise KbError(f"no lane is left for {search.plan.title}: {'; '.join(sorted(reasons))}")
