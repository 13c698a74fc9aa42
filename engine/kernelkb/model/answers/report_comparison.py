"""Defines what two reports of one kernel, before and after a change, say when compared.

``kb compare OLD NEW --json`` prints it. Values ``before`` and ``now`` are those of the two reports.
"""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict  # pydantic takes no typing.TypedDict before Python 3.12

from kernelkb.model.answers.recommendation import GateVerdict, PredictedSpeedup
from kernelkb.model.answers.source_place import LineAnswer

LineFate = Literal["same", "changed", "new", "gone"]
"""same: its text is in both sources, maybe elsewhere. changed: a similar line took its place."""
TimeVerdict = Literal["fell", "same", "rose"]


class LaunchSide(TypedDict):
    """The launch of one report that is compared."""

    report: str
    launch: int
    """Index in the report, from 0."""
    name: str
    """The kernel's, without its template arguments and parameters."""
    kernel: str
    grid: str
    block: str
    device: str
    """As the driver names it; empty if the report does not say."""
    duration_us: float | None
    """Under the profiler."""


class Amount(TypedDict):
    """A part of the kernel's time in one report."""

    share: float
    """Of the time or of the samples, 0 to 1."""
    us: float | None
    """Share times the duration."""
    samples: float | None
    """Null for parts that are not sampled."""


class PartChange(TypedDict):
    """One part of the time budget or one stall reason; null where a report lists none of it."""

    part: str
    title: str
    title_now: str
    """Differs where another resource of the part is the busiest now."""
    before: Amount | None
    now: Amount | None


class SourcePoint(TypedDict):
    """A line of one of the two sources."""

    file: str
    line: int
    text: str
    """Stripped; empty where the report holds no source."""


class LineChange(TypedDict):
    """The samples of one line; a new line was nowhere before, one that is gone is nowhere now."""

    fate: LineFate
    at_before: SourcePoint | None
    at_now: SourcePoint | None
    before: Amount | None
    """Null without samples."""
    now: Amount | None


class SampleChanges(TypedDict):
    """What the samples of both reports say."""

    total_before: float
    total_now: float
    stalls: list[PartChange]
    """The largest changes of share times duration first."""
    lines: list[LineChange]
    lines_reason: str | None
    """Why no lines are compared, or how they are matched if not by their text."""


class FalsifierCheck(TypedDict):
    """The comparison that had to become true after the change, and whether it did."""

    bottleneck: str
    fix: str | None
    metric: str
    op: str
    value: float
    before: float
    now: float | None
    held: bool | None
    """Null where the new report lacks the metric."""
    time: TimeVerdict | None
    """Null where a report has no duration."""
    says: str


class NowBinding(TypedDict):
    """What limits the kernel in the new report."""

    gate: GateVerdict
    because: str
    """Why the gate says so."""
    bottleneck: str | None
    """Null where the metrics name none."""
    was_before: bool
    """Whether it was a diagnosis of the old report, too."""
    confidence: float
    predicted_speedup: PredictedSpeedup | None
    fix: str | None
    do: str
    """What the fix changes; without a bottleneck, the largest part of the time."""
    lines: LineAnswer | None


class KernelComparison(TypedDict):
    """One kernel in both reports."""

    before: LaunchSide
    now: LaunchSide
    ratio: float | None
    """Duration before over now: above 1, the new one is faster."""
    time: list[PartChange]
    """The five parts whose share changed most."""
    samples: SampleChanges | None
    no_samples: str | None
    """Why there are no samples to compare."""
    falsifier: FalsifierCheck | None
    """Null where no diagnosis of the old report has one."""
    binds: NowBinding
    notes: list[str]


class ReportComparison(TypedDict):
    """All kernels that two reports share."""

    kernels: list[KernelComparison]
    """The longest before first."""
    only_before: list[LaunchSide]
    only_now: list[LaunchSide]
    left_out: int
    """Pairs beyond the most that are compared at once."""
