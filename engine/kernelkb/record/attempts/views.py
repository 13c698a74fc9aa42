"""What commands show of attempts."""

from __future__ import annotations

from typing import NamedTuple

from kernelkb.model.answers.report_comparison import ReportComparison
from kernelkb.model.records.attempt import Attempt, AttemptId
from kernelkb.model.records.history import PairwiseComparison
from kernelkb.record.attempts.stuck import Stuck
from kernelkb.record.attempts.tree import AttemptNode, AttemptTree


class AttemptLog(NamedTuple):
    """The attempts at a kernel."""

    kernel: str
    tree: AttemptTree
    total: int
    """All attempts; the tree holds the newest."""
    stuck: Stuck | None


class AttemptDifference(NamedTuple):
    """What differs between two attempts."""

    before: AttemptNode
    after: AttemptNode
    source: list[str]
    """Lines of a unified diff."""
    flags: tuple[tuple[str, ...], tuple[str, ...]] | None
    """Compiler flags of both; None where they are equal."""
    comparison: PairwiseComparison | None
    """Of their newest benches; None where one was not timed on the same workload and device."""
    same_code: bool | None
    """Whether the machine code is the same; None where it is not known."""
    counts: dict[str, tuple[float, float]]
    """Instructions by kind, before and after, where they differ."""
    metrics: dict[str, tuple[float, float]]
    """Metrics of their newest profiles, before and after, where they differ by a tenth."""
    reports: ReportComparison | None
    """What changed by resource, stall and line; None unless both were profiled with counters."""


class RestoredAttempt(NamedTuple):
    """A state that was written back."""

    attempt: Attempt
    kept: AttemptId | None
    """The state that was there before, by its id; None if there was none, or the same."""
    written: tuple[str, ...]
    """Files that changed, by their path in the project."""
    flags_differ: bool
    """Whether kernel.yaml, which is not written, has other flags now."""
    unrecorded: str | None = None
    """Why the history has no entry of it."""
