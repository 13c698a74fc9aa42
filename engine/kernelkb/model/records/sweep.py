"""The results of judging many kernels on the lanes of a cluster."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kernelkb.model.base import Record, Slug, Target
from kernelkb.model.records.measurement import Bench, Check
from kernelkb.model.records.verdict import Verdict, is_failure

SweepVerdict = Verdict | Literal["correct", "not-run"]
"""``correct``: checked and not to be timed. ``not-run``: nothing is known of the kernel, since the
worker lacks something, the kernel.yaml is wrong or the reference fails."""


class SweepRow(Record):
    """What came out for one variant of one kernel, or for one task."""

    kernel: str
    """The kernel's id; for a task the name of its file."""
    variant: Slug | None
    target: Target | None
    verdict: SweepVerdict
    detail: str | None = None
    """Why it was not timed, or is wrong."""
    cure: str | None = None
    device: str | None = None
    """Name of the GPU or CPU; None where it did not come to a device."""
    lane: str | None = None
    """The worker: its host, a slash, the UUID of its device."""
    seconds: float = 0.0
    """On the lane, waiting for the device included."""
    check: Check | None = None
    bench: Bench | None = None

    @property
    def has_failed(self) -> bool:
        """Whether it is wrong, could not be timed, or nothing is known of it."""
        return is_failure(self.verdict) or self.verdict == "not-run"


class SweepLane(Record):
    """What one lane did."""

    lane: str
    """Its host, a slash, the UUID of its device."""
    model: str
    judged_count: int
    busy_share: float | None
    """Share of the time from its first kernel to its last in which it did not wait for work or for
    its device, 0 to 1; None where it judged nothing."""


class Sweep(Record):
    """Every row, sorted by name, and the lanes."""

    rows: tuple[SweepRow, ...]
    left_out: dict[str, str]
    """Kernels without such a variant, target or workload, and tasks without a candidate: why."""
    not_judged_count: int = 0
    """Variants that an interrupt kept from being judged."""
    lanes: tuple[SweepLane, ...]
    counts: dict[str, int] = Field(default_factory=dict)
    """Count of rows by verdict."""
    seconds: float
