"""Tells whether two arguments name reports to compare. Only fast imports."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import BadValueError

_CHOICE = re.compile(r"(?P<path>.+?)(?:#(?P<launch>[0-9]{1,9}))?", re.DOTALL)
_REPORT_NAME = re.compile(r".+\.(ncu-rep|csv)(#[0-9]+)?", re.DOTALL)


class ReportChoice(NamedTuple):
    """A report, and the launch of it that is meant."""

    path: Path
    launch: int | None
    """Its index, from 0; None for all."""


def choose_reports(before: str, now: str) -> tuple[ReportChoice, ReportChoice] | None:
    """Return the reports that two texts name, each ``FILE`` or ``FILE#LAUNCH``.

    Returns:
        None if one of them is no file; then they name measurements.

    Raises:
        BadValueError: One is a file, and the other is named as a report that does not exist.
    """
    old, new = _parse_choice(before), _parse_choice(now)
    if old and new:
        return old, new
    for text, choice in ((before, old), (now, new)):
        if choice is None and _REPORT_NAME.fullmatch(text):
            raise BadValueError(f"no file {text}; two reports, FILE or FILE#LAUNCH, are compared")
    return None


def _parse_choice(text: str) -> ReportChoice | None:
    if _is_file(text):
        return ReportChoice(Path(text), None)
    found = _CHOICE.fullmatch(text)
    if found is None or found["launch"] is None or not _is_file(found["path"]):
        return None
    return ReportChoice(Path(found["path"]), int(found["launch"]))


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # too long for a name
        return False
