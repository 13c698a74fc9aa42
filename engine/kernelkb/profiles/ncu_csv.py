"""Parses Nsight Compute's raw and details CSV pages to launches with their metrics.

The page is wide: one row for each launch, one column for each raw metric, a second row with units.
Columns differ between GPUs and versions, so they are found by name, never by position. ``n/a``,
``no data``, empty cells and NaN mean that a counter is unknown, not zero.

The page is long: one row for each metric or rule of each launch. It names metrics by section and
title, holds fewer of them than the raw page, and rounds them.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from kernelkb.errors import KbError
from kernelkb.profiles.launch import (
    GPU_ATTRIBUTE,
    NcuRule,
    ProfiledLaunch,
    RawName,
    parse_cell_number,
    parse_gpu_attributes,
    parse_rule_estimate,
    split_instance,
)
from kernelkb.progress import sleep_cancellable

KERNEL_NAME_COLUMN = "Kernel Name"
_DEVICE_COLUMN = "device__attribute_display_name"
_HOPPER = "9.0"
_HALF_LANES = 128
"""Of a cycle and SM there, each with two numbers."""
_LOOKED_AT_ROWS = 20
"""Of a page, to see how its numbers are written (chosen)."""
_NUMBER = re.compile(r"\d[\d.,]*")
_DECIMAL_COMMA = re.compile(r"\d{1,3}(\.\d{3})*,(\d{1,2}|\d{4,})|\d{1,3}(\.\d{3})+,\d+|\d{4,},\d+")
_DECIMAL_POINT = re.compile(r"\d{1,3}(,\d{3})*\.(\d{1,2}|\d{4,})|\d{1,3}(,\d{3})+\.\d+|\d{4,}\.\d+")
_LINES_PER_LOOK = 100
"""Lines between two looks at whether the work was cancelled."""
_RAW_CURE = "write one with: ncu --import REPORT --csv --page raw --print-units base"


def read_raw_page(text: str, wanted: Sequence[RawName]) -> list[ProfiledLaunch]:
    """Return every launch in a raw page, with those of the metrics that it contains.

    Args:
        text: Output of ``ncu --csv --page raw``; lines before the header are ignored.
        wanted: Metrics to read, with their raw names, the preferred name first.

    Raises:
        KbError: The text contains no raw page.
    """
    rows = read_csv_table(text, "this is no raw CSV page of Nsight Compute", _RAW_CURE)
    columns = {name: at for at, name in enumerate(rows[0])}
    if "Metric Name" in columns:
        raise KbError(f"this is the details page of Nsight Compute, not the raw one; {_RAW_CURE}")
    if len(rows) > 2 and len(rows[1]) != len(rows[0]):
        raise KbError(f"the row of units does not fit the header; {_RAW_CURE}")
    units = rows[1] if len(rows) > 1 else []
    return [
        _build_raw_launch(row, columns, units, wanted)
        for row in rows[2:]
        if len(row) == len(rows[0])
    ]


def _build_raw_launch(
    row: Sequence[str], columns: Mapping[str, int], units: Sequence[str], wanted: Sequence[RawName]
) -> ProfiledLaunch:
    cc, gpu = parse_gpu_attributes(
        lambda name: parse_cell_number(_get_cell(row, columns, f"{GPU_ATTRIBUTE}{name}"))
    )
    cc = _get_cell(row, columns, "CC") or cc
    return ProfiledLaunch(
        row[columns[KERNEL_NAME_COLUMN]],
        _take_apart_pipes(dict(_iter_raw_metrics(row, columns, units, wanted)), cc),
        _get_cell(row, columns, _DEVICE_COLUMN),
        (_get_cell(row, columns, "Grid Size"), _get_cell(row, columns, "Block Size")),
        cc=cc,
        gpu=gpu,
    )


def _take_apart_pipes(metrics: dict[str, float], cc: str) -> dict[str, float]:
    """Return metrics whose tensor pipe holds matrix instructions alone.

    On Hopper its cycles are counted for packed half precision, too: 83.6 % for a loop of HFMA2
    without a matrix instruction, where that pipe's own counter says 83.7 %, and 107 of these a
    cycle and SM (H200, ncu 2025.3; sums and products of halves alone were not measured).
    """
    tensor, fp16 = metrics.get("tensor_utilization"), metrics.get("fp16_utilization")
    if fp16 is None and "hfma_rate" in metrics and "sm_count" in metrics:
        fp16 = metrics["hfma_rate"] / (_HALF_LANES * metrics["sm_count"])
    if cc != _HOPPER or tensor is None or fp16 is None:
        return metrics
    return {**metrics, "tensor_utilization": max(0.0, tensor - fp16)}


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
        rows = list(csv.reader(chain([header], lines)))
    except csv.Error as error:
        raise KbError(f"this page is torn ({error}); {cure}") from error
    return _swap_separators(rows) if _has_decimal_commas(rows) else rows


def _has_decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the numbers were written as in German: 4.205.684 and 17,98."""
    cells = [cell for row in rows[1:_LOOKED_AT_ROWS] for cell in row]
    commas = sum(bool(_DECIMAL_COMMA.fullmatch(cell)) for cell in cells)
    return commas > sum(bool(_DECIMAL_POINT.fullmatch(cell)) for cell in cells)


def _swap_separators(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    swapped = str.maketrans({",": ".", ".": ","})
    return [
        [cell.translate(swapped) if _is_swapped(cell) else cell for cell in row] for row in rows
    ]


def _is_swapped(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell)) and not _DECIMAL_POINT.fullmatch(cell)


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


def _iter_raw_metrics(
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


_DETAILS_CURE = "write one with: ncu --import REPORT --csv --page details"

Row = Mapping[str, str]


class TitledValue(NamedTuple):
    """One row of a page for people."""

    section: str
    title: str
    """Or the raw name of a counter, as under ``Command line profiler metrics``."""
    unit: str
    value: str


def read_details_page(text: str, wanted: Sequence[RawName]) -> list[ProfiledLaunch]:
    """Return every launch in a details page.

    Args:
        text: Output of ``ncu --csv --page details``; lines before the header are ignored.
        wanted: Metrics to read, with their titles on this page.

    Raises:
        KbError: The text contains no details page.
    """
    header, *rows = read_csv_table(
        text, "this is no details CSV page of Nsight Compute", _DETAILS_CURE
    )
    if not {"Section Name", "Metric Name", "Metric Value"} <= set(header):
        raise KbError(f"this is not the details page of Nsight Compute; {_DETAILS_CURE}")
    launches: dict[str, list[Row]] = {}
    least = header.index("Metric Value") + 1  # rows of metrics lack the cells for rules
    for cells in rows:
        if len(cells) >= least:
            row = dict(zip(header, cells, strict=False))
            launches.setdefault(row.get("ID", ""), []).append(row)
    return [_build_launch(found, wanted) for found in launches.values()]


def _build_launch(rows: Sequence[Row], wanted: Sequence[RawName]) -> ProfiledLaunch:
    first = rows[0]
    shape = (first.get("Grid Size", ""), first.get("Block Size", ""))
    values = [
        TitledValue(
            row["Section Name"],
            row["Metric Name"],
            row.get("Metric Unit", ""),
            row.get("Metric Value", ""),
        )
        for row in rows
    ]
    return ProfiledLaunch(
        first[KERNEL_NAME_COLUMN],
        pick_metrics([*multiply_shape(*shape), *values], wanted),
        shape=shape,
        rules=tuple(_iter_rules(rows)),
        cc=first.get("CC", ""),
    )


def multiply_shape(grid: str, block: str) -> Iterator[TitledValue]:
    """Yield the blocks of a grid and the threads of a block, as the counters that hold them.

    Args:
        grid: Such as ``(64, 1, 1)``; empty if it is not known.
        block: The same.
    """
    for counter, shape in (("launch__grid_size", grid), ("launch__block_size", block)):
        sizes = re.findall(r"\d+", shape)
        if sizes:
            yield TitledValue("", counter, "", str(math.prod(map(float, sizes))))


def pick_metrics(rows: Iterable[TitledValue], wanted: Sequence[RawName]) -> dict[str, float]:
    """Return the metrics that rows hold; of several rows of one metric, the last known counts.

    A row is found by its section and title, or by its title alone where one metric has it: the
    names of sections have changed more often than titles.

    Args:
        rows: Of one launch.
        wanted: Metrics to read, with their titles and raw names.
    """
    found: dict[str, float] = {}
    by_name = _index_titles(wanted)
    for row in rows:
        # Where columns were closed up, the last word of a title without a unit looks like one.
        for title, unit in ((row.title, row.unit), (f"{row.title} {row.unit}", "")):
            one = by_name.get(f"{row.section}/{title}") or by_name.get(title)
            if one is not None and one.fits_unit(unit):
                value = one.to_metric_unit(parse_cell_number(row.value), unit)
                if value is not None:
                    found[one.metric] = value
                break
    return found


def _index_titles(wanted: Sequence[RawName]) -> dict[str, RawName]:
    """Return metrics by ``section/title``, by a title that is one metric's only, and by name."""
    owners: dict[str, set[str]] = {}
    index: dict[str, RawName] = {}
    for one in wanted:
        for title in one.titles:
            owners.setdefault(title.partition("/")[2], set()).add(one.metric)
    for one in wanted:
        index |= dict.fromkeys(one.names, one)
        for title in one.titles:
            index[title] = one
            alone = title.partition("/")[2]
            if len(owners[alone]) == 1:
                index[alone] = one
    return index


def _iter_rules(rows: Sequence[Row]) -> Iterator[NcuRule]:
    for row in rows:
        if row.get("Rule Name") and row.get("Rule Description"):
            share = parse_cell_number(row.get("Estimated Speedup", ""))
            removes, scope = parse_rule_estimate(share, row.get("Estimated Speedup Type", ""))
            yield NcuRule(row["Rule Name"], row["Rule Description"], removes, scope)
