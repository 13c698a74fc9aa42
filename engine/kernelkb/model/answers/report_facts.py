"""Defines what an answer takes from a report of Nsight Compute as it stands there."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict  # pydantic takes no typing.TypedDict before Python 3.12


class LaunchTime(TypedDict):
    """Which launch of a report, and how long it took under the profiler; null without a report."""

    launch: int
    duration_us: float | None
    share: float | None
    """Of the time of all launches in the report."""


class NcuRuleEstimate(TypedDict):
    """What a rule of Nsight Compute reports about the launch: evidence, not our verdict."""

    rule: str
    says: str
    scope: Literal["kernel", "local"] | None
    """Of the whole kernel, or of one unit of it only; null without an estimate."""
    removes: float | None
    """The rule's estimate, as a share of the time of its scope."""
    speedup: float | None
    """1 / (1 - removes). Null for a local one, which needs a weight that the rule does not give."""


class SimilarCase(TypedDict):
    """A measured kernel with the same causes and a time budget like this one."""

    kernel: str
    operation: str
    device: str
    bottleneck: str
    fix: str
    """What helped it."""
    speedup: float
