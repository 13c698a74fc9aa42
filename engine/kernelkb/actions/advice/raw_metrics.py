"""Takes values under Nsight Compute's own names, such as ``sm__throughput.avg.pct_...``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernelkb.errors import BadValueError, UnknownNameError

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules

_RAW_NAME = re.compile(r"[a-z0-9]+__\w+")
"""How the names of Nsight Compute begin: unit, two underscores, counter."""
_VALUE = re.compile(r"(?P<number>[-+]?[\d,]*\.?\d+(?:[eE][-+]?\d+)?)\s*(?P<unit>%|[A-Za-z/]*)")


_HIGHEST_SHARE = 1.05
"""A hardware counter can exceed its peak slightly, but not by more."""


def resolve_raw_names(
    rules: CompiledRules, metrics: Mapping[str, str | float]
) -> dict[str, str | float]:
    """Return given values by metric id; those under a raw name are converted to the metric's unit.

    A value under the metric's own id comes before one under a raw name, and of several raw names
    of a metric the preferred one comes first, as in a report.

    Args:
        rules: The compiled rules, with the raw names of each metric.
        metrics: Values by metric id or raw name; a raw value is in the unit that Nsight Compute
            prints without a prefix (percent, ns, bytes), or names it, as ``1.5 ms``.

    Raises:
        UnknownNameError: A name of Nsight Compute that no metric is read from.
        BadValueError: A raw value that is not a number, or above 100 %.
    """
    known = rules["metrics"]
    found: dict[str, str | float] = {}
    raw = {name: value for name, value in metrics.items() if name not in known}
    for metric, row in rules["raw_names"].items() if raw else ():
        for name in row["names"]:
            if name in raw:
                value = _convert(name, raw.pop(name), row["scale"])
                if known[metric]["unit"] == "share" and value > _HIGHEST_SHARE:
                    above = f"{name} is {100 * value:g} %, more than its peak"
                    raise BadValueError(f"{above}; measure it again")
                found.setdefault(metric, value)
    for name in raw:
        if _RAW_NAME.match(name):
            names = [name for row in rules["raw_names"].values() for name in row["names"]]
            raise UnknownNameError("metric of Nsight Compute", name, names, "show", id="metrics")
    given = {name: value for name, value in metrics.items() if name in known or name in raw}
    return {**found, **given}


def _convert(name: str, value: str | float, scale: float) -> float:
    """Return a raw value in the metric's unit."""
    from kernelkb.profiles.launch import base_scale

    parts = _VALUE.fullmatch(str(value).strip())
    if parts is None:
        problem = f"{name} {str(value)[:40]!r} is not a number; write {name}=43, as ncu prints it"
        raise BadValueError(problem)
    unit = parts["unit"]
    return float(parts["number"].replace(",", "")) * scale * base_scale(unit)
