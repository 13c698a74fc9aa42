"""What every kind of report comes down to."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kernelkb.decide.rules import CompiledRules

_UNIT_SCALES = {  # ncu scales units for reading unless told --print-units base
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6,
    "second": 1e9, "s": 1e9, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
}  # fmt: skip


class RawName(NamedTuple):
    """How one of our metrics is found in a report."""

    metric: str
    names: tuple[str, ...]
    """Raw names, the preferred one first."""
    scale: float
    titles: tuple[str, ...] = ()
    """``section/title`` on the details page."""
    zero_is_value: bool = True
    """Whether 0 is a value; else it is an average over nothing."""

    def to_metric_unit(self, raw: float | None, unit: str) -> float | None:
        """Return a raw value in the metric's unit, None where it says nothing."""
        if raw is None or (raw == 0 and not self.zero_is_value):
            return None
        return raw * self.scale * base_scale(unit)


class NcuRule(NamedTuple):
    """What one of Nsight Compute's own rules says about a launch."""

    rule: str
    says: str
    removes: float | None
    """Share of the time that it would save; None when it says nothing about that."""
    scope: Literal["kernel", "local"] | None
    """Of the whole kernel, or of one unit of it only: then it needs a weight that ncu does not
    give."""


class ProfiledLaunch(NamedTuple):
    """One launch of one kernel in a report."""

    kernel: str
    metrics: dict[str, float]
    """By our ids, in our units; what a report does not hold is absent."""
    device: str = ""
    """As the driver names it; empty when the report does not say."""
    shape: tuple[str, str] = ("", "")
    """Grid and block, as the report writes them."""
    rules: tuple[NcuRule, ...] = ()


def list_raw_names(rules: CompiledRules) -> list[RawName]:
    """Return how every metric of a program that reports can hold is found in one."""
    return [
        RawName(
            metric, tuple(row["names"]), row["scale"], tuple(row["titles"]), row["zero_is_value"]
        )
        for metric, row in rules["raw_names"].items()
    ]


def base_scale(unit: str) -> float:
    """Return what a value in this unit of ncu is multiplied by to reach its base unit."""
    return _UNIT_SCALES.get(unit.partition("/")[0], 1.0)


def parse_cell_number(cell: str) -> float | None:
    """Return the number in a cell; ``n/a``, ``no data``, nothing and NaN are no numbers."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value if value - value == 0 else None


def parse_rule_estimate(
    share: float | None, scope: str
) -> tuple[float | None, Literal["kernel", "local"] | None]:
    """Return the share of time that a rule's estimate, in percent, stands for, and its scope."""
    if share is None or not 0 <= share < 100:
        return None, None
    return share / 100, "kernel" if scope == "global" else "local"
