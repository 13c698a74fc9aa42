"""Compares for read_entry: two measurements, or two reports of Nsight Compute, as ``A..B``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from mcp.server.mcpserver.exceptions import ToolError

from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb_mcp.entry_view import EntryView

if TYPE_CHECKING:
    from typing import Any

    from kernelkb.actions.comparison.compare_choice import ReportChoice

_MEASUREMENTS = re.compile(r"[\w/-]+\.\.[\w-]+")
_REPORT = r".+\.(?:ncu-repz?|csv)(?:#\d+)?"
_REPORTS = re.compile(rf"{_REPORT}\.\.{_REPORT}")
_DOTS = re.compile(r"(?=\.\.)")
"""Each place where the two sides may be cut apart; a path may begin with ``../``."""


def names_comparison(name: str) -> bool:
    """Return whether an id of ``read_entry`` names two measurements or reports."""
    return _MEASUREMENTS.fullmatch(name) is not None or _REPORTS.fullmatch(name) is not None


def load_comparison_view(name: str) -> EntryView:
    """Return what ``kb compare A B`` finds.

    Args:
        name: ``A..B``: ids of measurements or their beginnings, or paths of reports, each perhaps
            with ``#LAUNCH``. ``KERNEL/A..B`` also takes variants (their newest bench) and best.

    Raises:
        KbError: A file is no report, or the reports share no kernel.
        UnknownNameError: There is no such measurement.
        BadValueError: A side selects several measurements, or a report does not exist.
    """
    from kernelkb.actions.comparison.compare_reports import compare_reports
    from kernelkb.render.text.report_comparison import format_report_comparison

    reports = _find_reports(name)
    if reports is None:
        return _compare_measurements(name)
    found = compare_reports(*reports)
    summary = next(iter(format_report_comparison(found)), "nothing to compare")
    now = str(reports[1].path)
    return EntryView(cast("dict[str, Any]", found), summary, (f"recommend_fix(profile={now!r})",))


def _iter_sides(name: str) -> Iterator[tuple[str, str]]:
    for cut in _DOTS.finditer(name):
        before, now = name[: cut.start()], name[cut.start() + 2 :]
        if before and now:
            yield before, now


def _find_reports(name: str) -> tuple[ReportChoice, ReportChoice] | None:
    """Return the two reports; None if the sides name measurements.

    Raises:
        BadValueError: One side is a file, and the other is named as a report that does not exist.
    """
    from kernelkb.actions.comparison.compare_choice import choose_reports

    problem = None
    for before, now in _iter_sides(name):
        try:
            reports = choose_reports(before, now)
        except BadValueError as error:
            problem = problem or error
            continue
        if reports is not None:
            return reports
    if problem is not None:
        raise problem
    return None


def _compare_measurements(name: str) -> EntryView:
    from kernelkb.actions.history.measurements import select_and_compare
    from kernelkb.render.text.history import describe_choice, describe_comparison

    a, _, b = name.partition("..")
    kernel, slash, variant = a.rpartition("/")
    try:
        found = select_and_compare(variant if slash else a, b, kernel or None)
    except UnknownNameError as error:
        message = f"{error.complaint}; attempts/A..B compares attempts"
        raise ToolError(message) from error
    chosen = [
        describe_choice(letter, said, one)
        for letter, said, one in zip("ab", found.selected_by, (found.a, found.b), strict=True)
    ]
    summary = "; ".join((describe_comparison(found.comparison), *chosen))
    follow = f"recommend_fix(run={found.b.id[:12]!r})"
    return EntryView(found.comparison.model_dump(mode="json"), summary, (follow,))
