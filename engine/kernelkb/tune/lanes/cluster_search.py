"""Searches on several devices: builds anywhere, and each trial alone on one device."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from kernelkb.cluster.cluster import Cluster
from kernelkb.cluster.lanes import Lane
from kernelkb.cluster.tasks import LanesLostError, Task, WorkerDiedError
from kernelkb.errors import KbError
from kernelkb.measure.bench.trials import TrialOutcome
from kernelkb.tune.lanes.device_search import DeviceSearch, fail_build
from kernelkb.tune.lanes.lane_use import LaneUse, find_slow_lanes
from kernelkb.tune.lanes.trial_recorder import BuiltConfiguration
from kernelkb.tune.lanes.worker import (
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

_QUEUED = 2
"""Tasks at a lane, with the one that runs: the next one's files are there when it begins."""
_BATCH_S = 0.5
_MOST_IN_BATCH = 16
"""Trials of one task. A task costs some 20 ms beside its trials, which may take as little."""
_LOOK_S = 2.0
_CHECK_ROUNDS = 60
_WARM_UP_ROUNDS = 40
"""Of these, first and not used: an idle GPU needs a while to reach its clock."""
_MOST_CHECKS = 3
"""A device that is slow, or whose worker dies, each time is left out."""
_WAIT_S = 0.1


@dataclass(frozen=True, slots=True)
class _Label:
    """What a task is for."""

    step: Literal["build", "summary", "trial", "check"]
    search: DeviceSearch
    index: int = -1
    lane: str = ""
    of: Task | None = None
    """Of a summary and a check: the task of the build."""
    batch: tuple[tuple[Task, BuiltConfiguration], ...] = ()
    """Of trials: the builds."""


class ClusterSearch:
    """Runs searches, one for each model of device, on the lanes of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        sources: Task,
        job: SearchJob,
        searches: Iterable[DeviceSearch],
    ) -> None:
        self._cluster, self._sources, self._job = cluster, sources, job
        self._searches = list(searches)
        self._looked_at = time.monotonic()
        self._build_slots = cluster.build_slots
        self._asked: set[str] = set()
        """Lanes that have joined, and were asked what they are."""

    def run(self, deadline: float, max_trials: int | None) -> None:
        """Propose, build and try configurations until the deadline, the limit, or all were tried.

        Args:
            deadline: On the monotonic clock; what runs then is not waited for.
            max_trials: Most new trials for each model.

        Raises:
            KbError: No lane is left, or the reference fails.
        """
        for search in self._searches:
            self._check_lanes(search)
        while time.monotonic() < deadline:
            self._look_for_lanes()
            for search in self._searches:
                self._start_builds(search, max_trials)
                self._start_trials(search)
            ended = self._cluster.wait(_WAIT_S)
            for task in ended:
                self._handle(task)
            if not ended and not any(map(_has_work, self._searches)):
                break
        for search in self._searches:
            for lane in search.lanes.values():
                lane.stop()
        self._cluster.cancel()

    def _check_lanes(self, search: DeviceSearch) -> None:
        """Time the default on every lane."""
        build = self._submit_build(search, search.plan.default)
        for lane in search.lanes.values():
            self._submit_check(search, lane, build)

    def _submit_build(
        self, search: DeviceSearch, configuration: Mapping[str, int], label: object = None
    ) -> Task:
        defines = search.plan.format_trial_defines(configuration)
        return self._cluster.submit_build(
            build_configuration, self._sources, self._job, search.cc, defines, label=label
        )

    def _submit_check(self, search: DeviceSearch, lane: LaneUse, build: Task) -> None:
        self._cluster.submit_timed(
            lane.uuid,
            compare_configurations,
            *(self._sources, self._job, _CHECK_ROUNDS, build, build),
            label=_Label("check", search, lane=lane.uuid, of=build),
        )

    def _start_builds(self, search: DeviceSearch, max_trials: int | None) -> None:
        lane_count = len(search.lanes)
        share = self._build_slots / len(self._searches)
        most = share + _QUEUED * lane_count * self._size_batch(search)
        while search.building_count + len(search.ready) < most:
            if max_trials is not None and search.started_count >= max_trials:
                return
            index = search.search.propose()
            if index is None:
                return
            configuration = search.plan.space.get_configuration(index)
            build = self._submit_build(search, configuration, _Label("build", search, index))
            label = _Label("summary", search, index, of=build)
            self._cluster.submit_build(summarize_build, build, label=label, fetch=True)
            search.building_count += 1
            search.started_count += 1

    def _start_trials(self, search: DeviceSearch) -> None:
        """Give the builds that are ready to the lanes with the fewest tasks, in batches."""
        while search.ready:
            lane = min(search.open_lanes, key=lambda one: one.queued_count, default=None)
            if lane is None or lane.queued_count >= _QUEUED:
                return
            share = -(-len(search.ready) // len(search.open_lanes))
            batch = self._take_ready(search, min(share, self._size_batch(search)))
            if not batch:
                return
            self._cluster.submit_timed(
                lane.uuid,
                time_configurations,
                *(self._sources, self._job, search.recorder.best_us),
                *(build for build, _ in batch),
                label=_Label("trial", search, lane=lane.uuid, batch=tuple(batch)),
            )
            lane.add()

    def _size_batch(self, search: DeviceSearch) -> int:
        """Return how many trials make a task long beside what a task costs."""
        means = [lane.mean_busy_s for lane in search.open_lanes if lane.mean_busy_s]
        return max(1, min(_MOST_IN_BATCH, int(_BATCH_S / max(means)))) if means else 1

    def _take_ready(
        self, search: DeviceSearch, count: int
    ) -> list[tuple[Task, BuiltConfiguration]]:
        """Take builds that still need a trial, by what was tried since they were ready."""
        batch: list[tuple[Task, BuiltConfiguration]] = []
        while search.ready and len(batch) < count:
            build, built = search.ready.popleft()
            decided = search.recorder.judge_build(built)
            if decided:
                search.recorder.add_decided(built, decided)
            else:
                batch.append((build, built))
        return batch

    def _handle(self, task: Task) -> None:
        label = task.label
        if isinstance(label, Lane):
            self._add_lane(task, label)
        if not isinstance(label, _Label) or label.step == "build":
            return
        if label.step == "summary":
            self._handle_summary(task, label)
        elif label.step == "check":
            self._handle_check(task, label)
        else:
            self._handle_trials(task, label)

    def _handle_summary(self, task: Task, label: _Label) -> None:
        search, build = label.search, label.of
        search.building_count -= 1
        if isinstance(task.error, WorkerDiedError):
            search.recorder.add_decided(fail_build(search, label.index), "build-failed")
            return
        summary: WorkerBuild = task.result()
        built = BuiltConfiguration(label.index, summary.build, summary.code, summary.seconds)
        decided = search.recorder.judge_build(built)
        if decided:
            search.recorder.add_decided(built, decided)
        elif build is not None:
            search.ready.append((build, built))

    def _handle_trials(self, task: Task, label: _Label) -> None:
        search, lane = label.search, label.search.lanes[label.lane]
        if isinstance(task.error, LanesLostError):
            lane.lose(str(task.error))
            search.ready.extendleft(reversed(label.batch))
            self._require_lanes(search)
            return
        if isinstance(task.error, WorkerDiedError):
            lane.remove(0, None)
            blamed = int(task.error.note or 0)
            outcome = TrialOutcome("crashed", "it ended the worker that tried it", ())
            search.recorder.add_outcome(label.batch[blamed][1], outcome, 0.0, label.lane)
            others = [one for number, one in enumerate(label.batch) if number != blamed]
            search.ready.extendleft(reversed(others))
            return
        ended: LaneBatch = task.result()
        lane.remove(len(ended.trials), ended.span)
        for (_, built), tried in zip(label.batch, ended.trials, strict=True):
            search.recorder.add_outcome(built, tried.outcome, tried.trial_s, label.lane)

    def _handle_check(self, task: Task, label: _Label) -> None:
        search, lane = label.search, label.search.lanes[label.lane]
        lane.check_count += 1
        if isinstance(task.error, WorkerDiedError):  # it is back
            if lane.check_count < _MOST_CHECKS:  # so is that of the build, if it was that one
                self._submit_check(search, lane, self._submit_build(search, search.plan.default))
                return
            lane.leave_out("its worker died each time that the default was timed")
        elif isinstance(task.error, LanesLostError):
            lane.lose(str(task.error))
        else:
            checked: LaneTrial = task.result()
            times = checked.outcome.samples_us
            lane.finish_check([one for turns in times for one in turns[_WARM_UP_ROUNDS:]])
        if any(one.is_waiting for one in search.lanes.values()):
            return
        reasons = find_slow_lanes(search.lanes.values())
        for one in search.lanes.values():
            if one.left_out is not None:
                continue
            if one.uuid not in reasons:
                one.open()
            elif label.of is not None and one.check_count < _MOST_CHECKS:
                one.rejoin()
                self._submit_check(search, one, label.of)
            else:
                one.leave_out(reasons[one.uuid])
        self._require_lanes(search)

    def _require_lanes(self, search: DeviceSearch) -> None:
        if not search.open_lanes and not any(one.is_waiting for one in search.lanes.values()):
            reasons = {one.left_out for one in search.lanes.values() if one.left_out}
            raise KbError(f"no lane is left for {search.plan.title}: {'; '.join(sorted(reasons))}")

    def _look_for_lanes(self) -> None:
        """Count the builders again, and take in a lane that has joined or come back."""
        if time.monotonic() - self._looked_at < _LOOK_S:
            return
        self._looked_at = time.monotonic()
        self._build_slots = self._cluster.build_slots or self._build_slots
        known = {uuid for search in self._searches for uuid in search.lanes} | self._asked
        for found in self._cluster.lanes:
            if found.uuid not in known:
                self._asked.add(found.uuid)
                self._cluster.submit_timed(
                    found.uuid, describe_lane, self._sources, self._job, label=found
                )
        for search in self._searches:
            for lane in search.lanes.values():
                if lane.is_lost and lane.uuid in {one.uuid for one in self._cluster.lanes}:
                    lane.rejoin()
                    lane.check_count = 0
                    build = self._submit_build(search, search.plan.default)
                    self._submit_check(search, lane, build)

    def _add_lane(self, task: Task, lane: Lane) -> None:
        """Take in a lane that has joined, where its times can be compared with others'."""
        if task.error is not None:
            return
        facts: LaneFacts = task.result()
        for search in self._searches:
            if search.plan.is_comparable(facts.machine, facts.driver, facts.build_digest):
                use = search.lanes[lane.uuid] = LaneUse(lane)
                build = self._submit_build(search, search.plan.default)
                self._submit_check(search, use, build)


def _has_work(search: DeviceSearch) -> bool:
    lanes = search.lanes.values()
    queued = any(one.queued_count or one.is_waiting for one in lanes)
    return bool(queued or search.building_count or search.ready)
