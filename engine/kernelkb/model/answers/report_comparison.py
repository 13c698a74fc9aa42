"""Defines what two reports, before and after a change, say when compared.

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
KernelFate = Literal["kept", "renamed", "new", "gone", "fused", "split"]
"""Of a kernel of a call. renamed, fused and split are told by names alone, or where one kernel is
left on each side."""
MemoryLevel = Literal["dram-read", "dram-write", "l2", "l1", "shared"]
"""l2: what the SMs ask of L2. l1: global and local accesses. shared: passes of shared memory, which
is no count of bytes."""
GainVerdict = Literal["below", "inside", "above"]
"""Where a measured gain is, in its predicted interval."""


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


class LevelChange(TypedDict):
    """What moved at one level of memory; null where a report lacks its counters."""

    level: MemoryLevel
    title: str
    unit: Literal["bytes", "passes"]
    before: float | None
    now: float | None


class ResidencyChange(TypedDict):
    """A number of the launch or of what is resident that changed."""

    title: str
    before: float
    now: float


class PredictionCheck(TypedDict):
    """What the first change was told to give for the old state, and what was got."""

    bottleneck: str
    fix: str
    predicted: PredictedSpeedup
    measured: float
    """Time before over time now: of two profiles, or of benches that were timed in pairs."""
    verdict: GainVerdict


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
    levels: list[LevelChange]
    """Those that either report counts, from DRAM to the SM."""
    launch: list[ResidencyChange]
    prediction: PredictionCheck | None
    """Null where the old report names no change with a gain, or a duration is missing. Which change
    was made is not known: it holds if that one was."""
    falsifier: FalsifierCheck | None
    """Null where no diagnosis of the old report has one."""
    binds: NowBinding
    notes: list[str]


class KernelTotal(TypedDict):
    """All launches of one kernel of a call; of a fusion or a split, of all that it joins."""

    before: list[str]
    """Names, without template arguments; empty for a new kernel."""
    now: list[str]
    fate: KernelFate
    launches_before: int
    launches_now: int
    before_us: float | None
    """Null where a launch has no duration."""
    now_us: float | None
    is_noise: bool
    """Whether the change is no larger than profiles of one kernel differ."""


class CallChange(TypedDict):
    """What two reports hold in all: every launch of a call, or of a program."""

    source: Literal["profiles", "traces"]
    """profiles: of launches one by one, so gaps and overlap are not in it."""
    before_us: float | None
    """Sum of all launches; null where one has no duration."""
    now_us: float | None
    ratio: float | None
    launches_before: int
    launches_now: int
    span_before_us: float | None
    """From the first work of the GPU to the last, gaps included; null unless both are traces."""
    span_now_us: float | None
    idle_before_us: float | None
    """Of it, without any work of the GPU."""
    idle_now_us: float | None
    levels: list[LevelChange]
    """Sums over all launches."""
    kernels: list[KernelTotal]
    """The largest change of microseconds first."""
    notes: list[str]


class ReportComparison(TypedDict):
    """What changed between two reports."""

    call: CallChange
    kernels: list[KernelComparison]
    """The largest change of the time of all launches first; empty for traces."""
    only_before: list[LaunchSide]
    only_now: list[LaunchSide]
    left_out: int
    """Pairs beyond the most that are compared at once."""
