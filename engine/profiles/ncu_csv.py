"""Nsight Compute's raw CSV page → metrics.

The page is wide: one row for each launch, one column for each raw metric, a second row with units.
Columns differ between GPUs and versions, so names are looked up, never counted. ``n/a``, ``no
data``, empty cells and NaN mean that a counter said nothing, which is not zero.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from engine.errors import KbError

_NAME = "Kernel Name"
_CURE = "write one with: ncu --import REPORT --csv --page raw --print-units base"
_SCALES = {  # ncu scales the raw page's units per column unless told --print-units base
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6,
    "second": 1e9, "s": 1e9, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
}  # fmt: skip


class RawName(NamedTuple):
    """How one of our metrics is found in a report."""

    metric: str
    names: tuple[str, ...]
    scale: float


class Launch(NamedTuple):
    """One launch of one kernel in a report."""

    kernel: str
    metrics: dict[str, float]


def read_raw_page(text: str, wanted: Sequence[RawName]) -> list[Launch]:
    """Return every launch in a raw page, with those of the wanted metrics that it holds.

    Args:
        text: What ``ncu --csv --page raw`` printed; lines before the header are ignored.
        wanted: Our metrics and their raw names, the preferred name first.

    Raises:
        KbError: There is no raw page in the text.
    """
    lines = text.splitlines()
    head = next((at for at, line in enumerate(lines) if f'"{_NAME}"' in line), None)
    if head is None:
        raise KbError(
            "this is no raw CSV page of Nsight Compute: it has no column 'Kernel Name'; " + _CURE
        )
    rows = _rows(lines[head:])
    columns = {name: at for at, name in enumerate(rows[0])}
    if "Metric Name" in columns:
        raise KbError(f"this is the details page of Nsight Compute, not the raw one; {_CURE}")
    if len(rows) > 2 and len(rows[1]) != len(rows[0]):
        raise KbError(f"the row of units does not fit the header; {_CURE}")
    units = rows[1] if len(rows) > 1 else []
    return [
        Launch(row[columns[_NAME]], dict(_metrics(row, columns, units, wanted)))
        for row in rows[2:]
        if len(row) == len(rows[0])
    ]


def _rows(lines: list[str]) -> list[list[str]]:
    try:
        return list(csv.reader(lines))
    except csv.Error as error:
        raise KbError(f"this raw page is torn ({error}); {_CURE}") from error


def _metrics(
    row: Sequence[str],
    columns: Mapping[str, int],
    units: Sequence[str],
    wanted: Iterable[RawName],
) -> Iterable[tuple[str, float]]:
    for metric, names, scale in wanted:
        for name in names:
            if name in columns:
                value = _number(row[columns[name]])
                if value is not None:
                    yield metric, value * scale * _SCALES.get(units[columns[name]], 1.0)
                    break


def _number(cell: str) -> float | None:
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
