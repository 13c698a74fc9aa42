"""Parses Nsight Compute's raw CSV page to launches with their metrics.

The page is wide: one row for each launch, one column for each raw metric, a second row with units.
Columns differ between GPUs and versions, so they are found by name, never by position. ``n/a``,
``no data``, empty cells and NaN mean that a counter is unknown, not zero.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from kernelkb.errors import KbError
from kernelkb.profiles.launch import ProfiledLaunch, RawName, parse_cell_number, split_instance
from kernelkb.progress import sleep_cancellable

KERNEL_NAME_COLUMN = "Kernel Name"
_DEVICE_COLUMN = "device__attribute_display_name"
_LINES_PER_LOOK = 100
"""Lines between two looks at whether the work was cancelled."""
_CURE = "write one with: ncu --import REPORT --csv --page raw --print-units base"


def read_raw_page(text: str, wanted: Sequence[RawName]) -> list[ProfiledLaunch]:
    """Return every launch in a raw page, with those of the metrics that it contains.

    Args:
        text: Output of ``ncu --csv --page raw``; lines before the header are ignored.
        wanted: Metrics to read, with their raw names, the preferred name first.

    Raises:
        KbError: The text contains no raw page.
    """
    rows = read_csv_table(text, "this is no raw CSV page of Nsight Compute", _CURE)
    columns = {name: at for at, name in enumerate(rows[0])}
    if "Metric Name" in columns:
        raise KbError(f"this is the details page of Nsight Compute, not the raw one; {_CURE}")
    if len(rows) > 2 and len(rows[1]) != len(rows[0]):
        raise KbError(f"the row of units does not fit the header; {_CURE}")
    units = rows[1] if len(rows) > 1 else []
    return [
        ProfiledLaunch(
            row[columns[KERNEL_NAME_COLUMN]],
            dict(_iter_metrics(row, columns, units, wanted)),
            _get_cell(row, columns, _DEVICE_COLUMN),
            (_get_cell(row, columns, "Grid Size"), _get_cell(row, columns, "Block Size")),
        )
        for row in rows[2:]
        if len(row) == len(rows[0])
    ]


def read_csv_table(text: str, message: str, cure: str) -> list[list[str]]:
    """Return the rows of a CSV page from its header on.

    Args:
        text: The page; lines before the header are ignored.
        message: Begins the error message if there is no header.
        cure: Ends each error message: how to write a valid page.

    Raises:
        KbError: There is no header, or the text is not valid CSV.
    """
    lines = iterate_lines(text)
    header = next((line for line in lines if f'"{KERNEL_NAME_COLUMN}"' in line), None)
    if header is None:
        raise KbError(f"{message}: it has no column '{KERNEL_NAME_COLUMN}'; {cure}")
    try:
        return list(csv.reader(chain([header], lines)))
    except csv.Error as error:
        raise KbError(f"this page is torn ({error}); {cure}") from error


def iterate_lines(text: str) -> Iterator[str]:
    """Yield the lines of a page without their ends.

    A page may have hundreds of megabytes, which take ten seconds: other threads run meanwhile, and
    a cancelled call ends.

    Raises:
        OperationCancelled: The work was cancelled.
    """
    for at, line in enumerate(io.StringIO(text, newline=None)):
        if at % _LINES_PER_LOOK == 0:
            sleep_cancellable(0)
        yield line.rstrip("\n")


def _get_cell(row: Sequence[str], columns: Mapping[str, int], name: str) -> str:
    return row[columns[name]] if name in columns else ""


def _iter_metrics(
    row: Sequence[str],
    columns: Mapping[str, int],
    units: Sequence[str],
    wanted: Iterable[RawName],
) -> Iterable[tuple[str, float]]:
    for one in wanted:
        for name in one.names:
            counter, label = split_instance(name)
            if counter in columns:
                at = columns[counter]
                value = one.to_metric_unit(parse_cell_number(row[at], label), units[at])
                if value is not None:
                    yield one.metric, value
                    break
