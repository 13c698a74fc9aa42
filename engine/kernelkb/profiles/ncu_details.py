"""Parses Nsight Compute's details CSV page to launches with metrics and the results of its rules.

The page is long: one row for each metric or rule of each launch. It names metrics by section and
title, holds fewer of them than the raw page, and rounds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kernelkb.errors import KbError
from kernelkb.profiles.launch import (
    NcuRule,
    ProfiledLaunch,
    RawName,
    parse_cell_number,
    parse_rule_estimate,
)
from kernelkb.profiles.ncu_csv import KERNEL_NAME_COLUMN, read_csv_table

_CURE = "write one with: ncu --import REPORT --csv --page details"

Row = Mapping[str, str]


def read_details_page(text: str, wanted: Sequence[RawName]) -> list[ProfiledLaunch]:
    """Return every launch in a details page.

    Args:
        text: Output of ``ncu --csv --page details``; lines before the header are ignored.
        wanted: Metrics to read, with their titles on this page.

    Raises:
        KbError: The text contains no details page.
    """
    header, *rows = read_csv_table(text, "this is no details CSV page of Nsight Compute", _CURE)
    if not {"Section Name", "Metric Name", "Metric Value"} <= set(header):
        raise KbError(f"this is not the details page of Nsight Compute; {_CURE}")
    launches: dict[str, list[Row]] = {}
    least = header.index("Metric Value") + 1  # rows of metrics lack the cells for rules
    for cells in rows:
        if len(cells) >= least:
            row = dict(zip(header, cells, strict=False))
            launches.setdefault(row.get("ID", ""), []).append(row)
    titles = {title: one for one in wanted for title in one.titles}
    return [_build_launch(found, titles) for found in launches.values()]


def _build_launch(rows: Sequence[Row], titles: Mapping[str, RawName]) -> ProfiledLaunch:
    first = rows[0]
    shape = (first.get("Grid Size", ""), first.get("Block Size", ""))
    return ProfiledLaunch(
        first[KERNEL_NAME_COLUMN],
        dict(_iter_metrics(rows, titles)),
        shape=shape,
        rules=tuple(_iter_rules(rows)),
    )


def _iter_metrics(
    rows: Sequence[Row], titles: Mapping[str, RawName]
) -> Iterator[tuple[str, float]]:
    for row in rows:
        one = titles.get(f"{row['Section Name']}/{row['Metric Name']}")
        raw = parse_cell_number(row.get("Metric Value", "")) if one else None
        value = one.to_metric_unit(raw, row.get("Metric Unit", "")) if one else None
        if one and value is not None:
            yield one.metric, value


def _iter_rules(rows: Sequence[Row]) -> Iterator[NcuRule]:
    for row in rows:
        if row.get("Rule Name") and row.get("Rule Description"):
            share = parse_cell_number(row.get("Estimated Speedup", ""))
            removes, scope = parse_rule_estimate(share, row.get("Estimated Speedup Type", ""))
            yield NcuRule(row["Rule Name"], row["Rule Description"], removes, scope)
