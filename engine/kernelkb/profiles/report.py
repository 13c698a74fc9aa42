"""Reads any report of Nsight Compute, binary or CSV, to launches with their metrics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kernelkb.errors import BadValueError, ForbiddenPathError, KbError
from kernelkb.profiles.launch import ProfiledLaunch, RawName
from kernelkb.profiles.ncu_csv import (
    KERNEL_NAME_COLUMN,
    iterate_lines,
    read_details_page,
    read_raw_page,
)
from kernelkb.profiles.ncu_rep import COMPRESSED_MAGIC, MAGIC, read_binary
from kernelkb.profiles.reader_process import ReaderProcess
from kernelkb.progress import report_progress
from kernelkb.safety.workspace import MAX_REPORT_BYTES, read_bytes

_CURE = "give a .ncu-rep file, or what ncu --csv --page raw or details printed"
_MAX_PATH_CHARS = 1000
_REPORT_TEXT = re.compile(r"==PROF==|Section: |Metric Name\b|\bpct_of_peak_sustained|^\"ID\",")
"""What no path holds, and the text of a report does."""
_OTHER_FORMATS = {
    b"SQLite format 3\0": "an SQLite file, as Nsight Systems exports them",
    b"\x7fELF": "a program or library",
    b"PK\x03\x04": "an archive",
    b"\x1f\x8b": "a compressed file; unpack it first",
}
"""File formats that are rejected, by their first bytes."""


def read_report(
    path: Path,
    wanted: Sequence[RawName],
    ncu: str | None = None,
    *,
    reader: ReaderProcess | None = None,
) -> list[ProfiledLaunch]:
    """Return every launch in a report; one that is damaged has no name.

    Args:
        path: A ``.ncu-rep`` file, a raw CSV page or a details CSV page.
        wanted: Metrics to read, with their raw names and titles.
        ncu: Path of the ncu command, for binary reports if ``ncu-report`` is not installed.
        reader: A process for this and later calls; by default one for this call.

    Raises:
        BadValueError: The path is the text of a report.
        KbError: The file cannot be read, is not a report, or has no complete launch.
    """
    refuse_report_text(str(path))
    try:
        report_progress(f"reading {path.name}")
        data = read_bytes(path, MAX_REPORT_BYTES)
    except ForbiddenPathError:
        raise
    except OSError as error:
        raise KbError(f"cannot read {path}: {error.strerror}") from error
    if data.startswith((MAGIC, COMPRESSED_MAGIC)):
        launches = read_binary(path, wanted, ncu, reader)
    else:
        launches = _read_text_report(path, data, wanted)
    if not any(launch.kernel for launch in launches):
        raise KbError(f"{path} holds no complete launch; was it cut off? {_CURE}")
    return launches


def refuse_report_text(path: str) -> None:
    """Refuse the text of a report where its path is wanted.

    Raises:
        BadValueError: The path is text.
    """
    if "\n" in path or len(path) > _MAX_PATH_CHARS or _REPORT_TEXT.search(path):
        raise BadValueError(
            "this is the text of a report; give a path: save the report as a file and name that "
            "file. It reads a .ncu-rep file (ncu -o report) and the pages of ncu --csv --page raw; "
            "single numbers go into metrics, by the names that ncu prints"
        )


def is_binary_report(path: Path) -> bool:
    """Return whether a report holds more than a table: code, source and what was counted there."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) in (MAGIC, COMPRESSED_MAGIC)


def _read_text_report(path: Path, data: bytes, wanted: Sequence[RawName]) -> list[ProfiledLaunch]:
    for start, name in _OTHER_FORMATS.items():
        if data.startswith(start):
            raise KbError(f"{path} is {name}; {_CURE}")
    if b"\0" in data:
        raise KbError(f"{path} is a binary file, but no report of Nsight Compute; {_CURE}")
    text = data.decode("utf-8-sig", errors="replace")
    if f'"{KERNEL_NAME_COLUMN}"' not in text:
        raise KbError(f"{path} is no report of Nsight Compute{_guess_format(text)}; {_CURE}")
    header = next(line for line in iterate_lines(text) if f'"{KERNEL_NAME_COLUMN}"' in line)
    read = read_details_page if '"Metric Name"' in header else read_raw_page
    return read(text, wanted)


def _guess_format(text: str) -> str:
    if "Total Time (ns)" in text or "Time (%)" in text:
        return ": it looks like a summary of Nsight Systems"
    if "Section: " in text:
        return ": it is what ncu prints for people"
    if "traceEvents" in text:
        return ": it is a trace for a browser, as profilers of frameworks write them"
    return ""
