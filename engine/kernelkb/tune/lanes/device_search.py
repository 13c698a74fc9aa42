"""The search on all devices of one model: its plan, its builds that wait, its lanes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from kernelkb.cluster.tasks import Task
from kernelkb.model.records.measurement import Build
from kernelkb.tune.lanes.lane_use import LaneUse
from kernelkb.tune.lanes.trial_recorder import BuiltConfiguration, TrialRecorder
from kernelkb.tune.plan import TuningPlan
from kernelkb.tune.strategies.table import Search


class DeviceSearch:
    """The search on all lanes of one model: its plan, its trials, its lanes.

    Attributes:
        lanes: What each lane did, by UUID.
    """

    def __init__(
        self, plan: TuningPlan, search: Search, recorder: TrialRecorder, lanes: Iterable[LaneUse]
    ) -> None:
        self.plan, self.search, self.recorder = plan, search, recorder
        self.lanes = {lane.uuid: lane for lane in lanes}
        self.ready: deque[tuple[Task, BuiltConfiguration]] = deque()
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


def fail_build(search: DeviceSearch, index: int) -> BuiltConfiguration:
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
