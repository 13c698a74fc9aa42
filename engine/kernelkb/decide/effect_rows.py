"""Defines the types of the compiled effects of fixes and of the model of the time."""

from __future__ import annotations

from typing import NotRequired, TypeAlias, TypedDict

from kernelkb.decide.rule_rows import Condition

Program: TypeAlias = "list[float | str]"
"""A formula as a postfix program, see ``kernelkb.model.entries.metric``."""


class ResourceRow(TypedDict):
    """A resource of the model of the time: a metric, and the highest share that kernels reach."""

    id: str
    title: str
    group: str
    use: str
    peak: float | str


class TimeModelRow(TypedDict):
    """The model of the time: ``kernelkb.model.entries.effect.TimeModel``."""

    resources: list[ResourceRow]
    waits: dict[str, list[str | None]]
    """By reason, its metric and what its waiting follows."""
    fill: str
    warps: str
    duration: str
    empty_kernel: str
    empty_us: float
    clock: str
    widths: dict[str, float]
    """By coverage in percent, the width of an interval: ``model.entries.effect.ErrorModel``."""
    slope: float


class EffectRow(TypedDict):
    """What a fix changes, as formulas of the metrics before it."""

    when: NotRequired[Condition]
    title: str
    parts: list[str]
    """Effects that it has at once."""
    work: dict[str, Program]
    """By resource."""
    add: dict[str, Program]
    waits: dict[str, Program]
    latency: Program | None
    fill: Program | None
    warps: Program | None
    time: Program | None
    lowers_floor: bool
    conditional: bool
    error: float
