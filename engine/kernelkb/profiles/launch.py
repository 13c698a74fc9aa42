"""Defines a profiled launch, which every report reader returns, and converts raw values."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from kernelkb.decide.rules import CompiledRules

_UNIT_SCALES = {  # factor to ns or bytes; without --print-units base, ncu prints scaled units
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6,
    "second": 1e9, "s": 1e9, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
}  # fmt: skip


_INSTANCE = re.compile(r"(?<![\w.])([\w.]+): *(\d[\d,]*(?:\.\d+)?)")


class RawName(NamedTuple):
    """The raw names of one metric in a report, and the conversion of its values."""

    metric: str
    names: tuple[str, ...]
    """Raw names, the preferred one first."""
    scale: float
    titles: tuple[str, ...] = ()
    """``section/title`` on the details page."""
    zero_is_value: bool = True
    """Whether a raw 0 is a value; if not, it is an average over no samples, and so unknown."""

    def to_metric_unit(self, raw: float | None, unit: str) -> float | None:
        """Return a raw value in the metric's unit; None if it is unknown."""
        if raw is None or (raw == 0 and not self.zero_is_value):
            return None
        return raw * self.scale * base_scale(unit)


def split_instance(name: str) -> tuple[str, str]:
    """Return the counter of a raw name, and the label of its instance; empty without.

    Args:
        name: Such as ``sass__inst_executed_per_opcode[FCHK]``.
    """
    counter, _, rest = name.partition("[")
    return counter, rest.removesuffix("]")


class NcuRule(NamedTuple):
    """The result of one of Nsight Compute's own rules for a launch."""

    rule: str
    says: str
    """The rule's message."""
    removes: float | None
    """Estimated share of the scope's time that a fix would remove; None without an estimate."""
    scope: Literal["kernel", "local"] | None
    """kernel: the whole kernel. local: one unit of it; ncu does not report that unit's share of the
    kernel's time. None without an estimate."""


class ProfiledLaunch(NamedTuple):
    """One launch of one kernel in a report."""

    kernel: str
    metrics: dict[str, float]
    """Values by metric id, in the metric's unit; metrics that the report lacks are absent."""
    device: str = ""
    """Name of the GPU as the driver reports it; empty if the report has none."""
    shape: tuple[str, str] = ("", "")
    """Grid and block, as the report writes them."""
    rules: tuple[NcuRule, ...] = ()


def list_raw_names(rules: CompiledRules) -> list[RawName]:
    """Return the raw names of every metric that a report can contain."""
    return [
        RawName(
            metric, tuple(row["names"]), row["scale"], tuple(row["titles"]), row["zero_is_value"]
        )
        for metric, row in rules["raw_names"].items()
    ]


def base_scale(unit: str) -> float:
    """Return the factor from a unit of ncu, such as ``Kbyte`` or ``us``, to its base unit."""
    return _UNIT_SCALES.get(unit.partition("/")[0], 1.0)


def parse_cell_number(cell: str, label: str = "") -> float | None:
    """Return the number in a cell; None for ``n/a``, ``no data``, an empty cell or NaN.

    Args:
        cell: A number, perhaps with those of its instances: ``1,024 (FADD: 1,000; FMUL: 24)``.
        label: The instance to take; 0 if there are others only, None if there are none.
    """
    total, _, instances = cell.partition(" (")
    if label:
        found = dict(_INSTANCE.findall(instances))
        total = found.get(label, "0" if found else "")
    try:
        value = float(total.replace(",", ""))
    except ValueError:
        return None
    return value if value - value == 0 else None


def parse_rule_estimate(
    share: float | None, scope: str
) -> tuple[float | None, Literal["kernel", "local"] | None]:
    """Return a rule's estimate, in percent of time removed, as a share, and its scope.

    Both are None without a valid estimate.
    """
    if share is None or not 0 <= share < 100:
        return None, None
    return share / 100, "kernel" if scope == "global" else "local"
