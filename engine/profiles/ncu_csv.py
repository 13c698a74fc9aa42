"""Nsight Compute's raw CSV page → launches.

The page is wide: one row for each launch, one column for each raw metric, a second row with units.
Columns differ between GPUs and versions, so names are looked up, never counted. ``n/a``, ``no
data``, empty cells and NaN mean that a counter said nothing, which is not zero.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence

from kernelkb.errors import KbError
from kernelkb.profiles.launch import Launch, RawName, number

NAME = "Kernel Name"
_DEVICE = "device__attribute_display_name"
_CURE = "write one with: ncu --import REPORT --csv --page raw --print-units base"


def read_raw_page(text: str, wanted: Sequence[RawName]) -> list[Launch]:
    """Return every launch in a raw page, with those of the wanted metrics that it holds.

    Args:
        text: What ``ncu --csv --page raw`` printed; lines before the header are ignored.
        wanted: Our metrics and their raw names, the preferred name first.

    Raises:
        KbError: There is no raw page in the text.
    """
    rows = table(text, "this is no raw CSV page of Nsight Compute", _CURE)
    columns = {name: at for at, name in enumerate(rows[0])}
    if "Metric Name" in columns:
        raise KbError(f"this is the details page of Nsight Compute, not the raw one; {_CURE}")
    if len(rows) > 2 and len(rows[1]) != len(rows[0]):
        raise KbError(f"the row of units does not fit the header; {_CURE}")
    units = rows[1] if len(rows) > 1 else []
    return [
        Launch(
            row[columns[NAME]],
            dict(_metrics(row, columns, units, wanted)),
            _cell(row, columns, _DEVICE),
            (_cell(row, columns, "Grid Size"), _cell(row, columns, "Block Size")),
        )
        for row in rows[2:]
        if len(row) == len(rows[0])
    ]


def table(text: str, what: str, cure: str) -> list[list[str]]:
    """Return the rows of a CSV page from its header on.

    Args:
        text: The page; lines before the header are ignored.
        what: Said when there is no header.
        cure: How to write a sound page.

    Raises:
        KbError: There is no header, or the text is torn inside a cell.
    """
    lines = text.splitlines()
    head = next((at for at, line in enumerate(lines) if f'"{NAME}"' in line), None)
    if head is None:
        raise KbError(f"{what}: it has no column '{NAME}'; {cure}")
    try:
        return list(csv.reader(lines[head:]))
    except csv.Error as error:
        raise KbError(f"this page is torn ({error}); {cure}") from error


def _cell(row: Sequence[str], columns: Mapping[str, int], name: str) -> str:
    return row[columns[name]] if name in columns else ""


def _metrics(
    row: Sequence[str],
    columns: Mapping[str, int],
    units: Sequence[str],
    wanted: Iterable[RawName],
) -> Iterable[tuple[str, float]]:
    for one in wanted:
        for name in one.names:
            if name in columns:
                value = one.value(number(row[columns[name]]), units[columns[name]])
                if value is not None:
                    yield one.metric, value
                    break
