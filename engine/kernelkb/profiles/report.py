"""Reads reports of Nsight Compute: launches with their metrics, and what was counted in their code.

Only ``.ncu-rep`` files hold counts by instruction, where they were recorded with source counters.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kernelkb.errors import BadValueError, ForbiddenPathError, KbError, format_install_command
from kernelkb.profiles.launch import ProfiledLaunch, RawName, read_rule_numbers
from kernelkb.profiles.ncu_csv import (
    KERNEL_NAME_COLUMN,
    iterate_lines,
    read_details_page,
    read_raw_page,
)
from kernelkb.profiles.ncu_page import is_printed_page, read_listed_metrics, read_printed_page
from kernelkb.profiles.ncu_rep import (
    COMPRESSED_MAGIC,
    MAGIC,
    LoadedReport,
    load_report,
    read_binary,
    read_function,
)
from kernelkb.profiles.program_tables import describe_program, find_program_tables
from kernelkb.profiles.reader_process import ReaderProcess, has_reader, read_in_process
from kernelkb.profiles.timeline import (
    GZIP_MAGIC,
    SQLITE_MAGIC,
    ProgramRun,
    is_trace,
    load_program,
    load_run,
    parse_program,
)
from kernelkb.progress import report_progress
from kernelkb.safety.workspace import MAX_REPORT_BYTES, open_inside, read_bytes, resolve_inside
from kernelkb.sass.counters import STALL_PREFIX, SourceCounters
from kernelkb.sass.function import fill_called_places

_TimelineT = TypeVar("_TimelineT")

_CURE = "give a .ncu-rep file, what ncu printed, or a trace of the program"
_TIMELINE_TIMEOUT_S, _TIMELINE_BYTES_PER_S = 60.0, 4e6
"""Chosen: a trace is read at 20 MB/s and more; compressed ones are ten times as long inside."""
_START_BYTES = 2**16
"""Of a file, by which traces are told."""
_MAX_PATH_CHARS = 1000
_REPORT_TEXT = re.compile(r"==PROF==|Section: |Metric Name\b|\bpct_of_peak_sustained|^\"ID\",")
"""What no path holds, and the text of a report does."""
_FAILED_LAUNCH = re.compile(r"==ERROR== (?P<error>\w{1,80})\s*$", re.MULTILINE)
_OTHER_FORMATS = {
    b"\x7fELF": "a program or library",
    b"PK\x03\x04": "an archive",
}
"""File formats that are rejected, by their first bytes."""

_STALL = re.compile(r"smsp__pcsamp_warps_issue_stalled_(?P<reason>\w+?)(?P<idle>_not_issued)?")
_WAIT = re.compile(r"stall_\w+_cycles")
_MOST_WAITS = 6
"""Rows of a table of waits from which it is taken as whole; ncu lists 17, most of them 0."""
_SAMPLES = "smsp__pcsamp_sample_count"
_EXECUTED = "inst_executed"
_COUNTERS = (
    _EXECUTED, "thread_inst_executed", "thread_inst_executed_true",
    "memory_l2_theoretical_sectors_global", "memory_l2_theoretical_sectors_global_ideal",
    "memory_l2_theoretical_sectors_local", "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal", "memory_l1_tag_requests_global",
    "smsp__branch_targets_threads_divergent",
)  # fmt: skip
_WITHOUT_LINES = "the code was compiled without -lineinfo"
_LINE_SAMPLES = 32


def read_report(
    path: Path,
    wanted: Sequence[RawName],
    ncu: str | None = None,
    *,
    reader: ReaderProcess | None = None,
) -> list[ProfiledLaunch]:
    """Return every launch in a report; one that is damaged has no name.

    Args:
        path: A ``.ncu-rep`` file, a raw CSV page, a details CSV page, what ncu printed, an export
            of nsys (SQLite), or a trace for a browser, compressed or not; or a folder of those of
            all ranks.
        wanted: Metrics to read, with their raw names and titles.
        ncu: Path of the ncu command, for binary reports if ``ncu-report`` is not installed.
        reader: A process for this and later calls; by default one for this call.

    Raises:
        KbError: The file cannot be read, is not a report, or has no complete launch.
    """
    try:
        report_progress(f"reading {path.name}")
        if is_timeline(path):
            return [_read_timeline(path, load_program, reader)]
        data = read_bytes(path, MAX_REPORT_BYTES)
    except ForbiddenPathError:
        raise
    except OSError as error:
        raise KbError(f"cannot read {path}: {error.strerror}") from error
    if data.startswith((MAGIC, COMPRESSED_MAGIC)):
        return _complete_launches(str(path), read_binary(path, wanted, ncu, reader), wanted)
    for start, name in _OTHER_FORMATS.items():
        if data.startswith(start):
            raise KbError(f"{path} is {name}; {_CURE}")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", errors="replace").encode()
    if b"\0" in data:
        raise KbError(f"{path} is a binary file, but no report of Nsight Compute; {_CURE}")
    return read_report_text(data.decode("utf-8-sig", errors="replace"), wanted, name=str(path))


def read_run(path: Path) -> ProgramRun:
    """Return the launches of a program from its timeline, or from those of all ranks in a folder.

    Raises:
        KbError: It cannot be read, or holds no kernel.
    """
    report_progress(f"reading {path.name}")
    run = _read_timeline(path, load_run)
    if run is None:
        raise KbError(f"{path} holds no kernel; record the activities of the GPU as well")
    return run


def _read_timeline(
    path: Path, load: Callable[[Sequence[str]], _TimelineT], reader: ReaderProcess | None = None
) -> _TimelineT:
    """Return what a function reads of a file, or of all ranks whose timelines a folder holds."""
    files = [path]
    if path.is_dir():
        files = [one for one in sorted(path.iterdir()) if one.is_file() and is_timeline(one)]
        if not files:
            raise KbError(f"{path} is a folder without timelines; {_CURE}")
    real = [resolve_inside(one) for one in files]
    size = sum(one.stat().st_size for one in files)
    timeout_s = _TIMELINE_TIMEOUT_S + size / _TIMELINE_BYTES_PER_S
    return read_in_process(load, real, name=str(path), reader=reader, timeout_s=timeout_s)


def is_timeline(path: Path) -> bool:
    """Return whether a path is a timeline by what it begins with, or a folder, which may hold some.

    Raises:
        ForbiddenPathError: It lies outside the workspace of a server.
    """
    if Path(resolve_inside(path)).is_dir():
        return True
    if not path.is_file():  # a pipe gives what it holds once
        return False
    with os.fdopen(open_inside(path), "rb") as file:
        start = file.read(_START_BYTES)
    return start.startswith((SQLITE_MAGIC, GZIP_MAGIC)) or is_trace(start)


def read_report_text(
    text: str, wanted: Sequence[RawName], *, name: str = "the text"
) -> list[ProfiledLaunch]:
    """Return every launch in the text of a report.

    Args:
        text: A raw CSV page, a details CSV page, what ncu printed for people, or the tables of
            ``nsys stats`` or torch.profiler or a trace, which are one launch of no kernel.
        wanted: Metrics to read, with their raw names and titles.
        name: Of the text, for messages.

    Raises:
        KbError: It is not a report, or has no complete launch.
    """
    header = f'"{KERNEL_NAME_COLUMN}"'
    if header in text:
        first = next(line for line in iterate_lines(text) if header in line)
        read = read_details_page if '"Metric Name"' in first else read_raw_page
    elif is_printed_page(text):
        read = read_printed_page
    elif is_trace(text[:_START_BYTES]):
        return [parse_program(text, name)]
    elif (tables := find_program_tables(text)) is not None:
        return [describe_program(tables)]
    elif listed := read_listed_metrics(text, wanted):
        return listed
    else:
        raise KbError(f"{name} is no report of Nsight Compute{_guess_format(text)}; {_CURE}")
    launches = read(text, wanted)
    failed = _FAILED_LAUNCH.search(text)
    if failed and not any(any(launch.metrics.values()) for launch in launches):
        cure = "make it run without the profiler, then profile again"
        raise KbError(f"{name} holds no measured launch; ncu says: {failed['error']}; {cure}")
    return _complete_launches(name, launches, wanted)


def _complete_launches(
    name: str, launches: Sequence[ProfiledLaunch], wanted: Sequence[RawName]
) -> list[ProfiledLaunch]:
    """Return launches with the numbers that only the messages of rules hold.

    Raises:
        KbError: None is complete.
    """
    if not any(launch.kernel or launch.metrics for launch in launches):
        raise KbError(f"{name} holds no complete launch; was it cut off? {_CURE}")
    return [
        launch._replace(
            metrics={
                **_sum_waits(launch.metrics),
                **read_rule_numbers(launch.rules, wanted),
                **launch.metrics,
            }
        )
        for launch in launches
    ]


def _sum_waits(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return a warp's latency as the sum of its parts, from a table of most of them."""
    parts = [value for name, value in metrics.items() if _WAIT.fullmatch(name)]
    if len(parts) < _MOST_WAITS or "stall_selected_cycles" not in metrics:
        return {}
    return {"warp_latency_cycles": sum(parts)}


def is_report_text(value: str) -> bool:
    """Return whether a value is the text of a report rather than its path."""
    return "\n" in value or len(value) > _MAX_PATH_CHARS or bool(_REPORT_TEXT.search(value))


def holds_report(text: str) -> bool:
    """Return whether a text, such as a log, holds what a profiler printed."""
    has_page = f'"{KERNEL_NAME_COLUMN}"' in text or is_printed_page(text)
    return has_page or find_program_tables(text) is not None


def refuse_report_text(path: str) -> None:
    """Refuse the text of a report where only a file will do.

    Raises:
        BadValueError: The path is text.
    """
    if is_report_text(path):
        raise BadValueError("this is the text of a report; save it as a file and give its path")


def is_binary_report(path: Path | str) -> bool:
    """Return whether a report holds more than a table: code, source and what was counted there.

    Args:
        path: Of a report, or the text of one.
    """
    if is_report_text(str(path)) or Path(path).is_dir():
        return False
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) in (MAGIC, COMPRESSED_MAGIC)


def _guess_format(text: str) -> str:
    if "Total Time (ns)" in text or "Time (%)" in text:
        return ": it looks like a summary of Nsight Systems, without its counts"
    return ""


def read_source_counters(
    path: Path,
    launches: Sequence[int],
    *,
    without_lines: int | None = None,
    reader: ReaderProcess | None = None,
) -> list[SourceCounters | str | None]:
    """Return what launches counted at each instruction.

    Args:
        path: A ``.ncu-rep`` file.
        launches: Indices, in the order of ``read_report``.
        without_lines: How many, from the first on, are read even if they have no lines, for what
            their code shows: disassembling takes up to a second each. None: all.
        reader: A process for this and other calls; by default one for this call.

    Returns:
        For each launch: None where the report has none of it, and a text where it cannot be read.
    """
    if not has_reader():
        cure = format_install_command("reports")
        return [f"the lines of a report take the ncu-report package: {cure}"] * len(launches)
    try:
        return read_in_process(_load_all, path, launches, without_lines, reader=reader)
    except KbError as error:
        return [str(error)] * len(launches)


def _load_all(
    path: Path, launches: Sequence[int], without_lines: int | None
) -> list[SourceCounters | str | None]:
    report = load_report(path)
    loaded = [_load_launch(report, launch) for launch in launches]
    sure = len(loaded) if without_lines is None else without_lines
    report.images.start({
        action.name(action.NameBase_MANGLED)
        for position, action in enumerate(loaded)
        if position < sure or action.source_files()
    })  # fmt: skip
    return [_try_to_read(report, action, at >= sure) for at, action in enumerate(loaded)]


def _try_to_read(
    report: LoadedReport, action: Any, needs_lines: bool
) -> SourceCounters | str | None:
    try:
        return _read_launch(report, action, needs_lines)
    except KbError as error:
        return str(error)


def load_source_counters(path: Path, launch: int) -> SourceCounters | None:
    """Return what a launch counted, read in this process, which a damaged report may end.

    Args:
        path: A ``.ncu-rep`` file.
        launch: Index.

    Raises:
        KbError: The report holds no such launch, or is damaged.
    """
    report = load_report(path)
    return _read_launch(report, _load_launch(report, launch))


def _read_launch(
    report: LoadedReport, action: Any, needs_lines: bool = False
) -> SourceCounters | None:
    counted = dict(_read_counters(action))
    if _SAMPLES not in counted and _EXECUTED not in counted:
        return None
    if needs_lines and not _has_lines(action, counted):
        raise KbError(_WITHOUT_LINES)
    code = read_function(action, report.images, counted)
    index_of = {code.base + one.offset: at for at, one in enumerate(code.function.instructions)}
    counters = {
        _rename(counter): {index_of[pc]: value for pc, value in values.items() if pc in index_of}
        for counter, values in counted.items()
    }
    samples = counted.get(_SAMPLES, {})
    return SourceCounters(
        function=fill_called_places(code.function, counters.get(_EXECUTED, {})),
        raw=counters,
        sources=dict(action.source_files()),
        outside=sum(value for pc, value in samples.items() if pc not in index_of),
        notes=(code.reason,) if code.reason else (),
    )


def _load_launch(report: LoadedReport, launch: int) -> Any:
    if not 0 <= launch < len(report.launches):
        raise KbError("the report holds no such launch")
    return report.launches.load(launch)


def _read_counters(action: Any) -> Iterable[tuple[str, dict[int, float]]]:
    """Yield each counter with its values by address."""
    for name in action.metric_names():
        is_stall = (found := _STALL.fullmatch(name)) and not found["idle"]
        if not (is_stall or name == _SAMPLES or name in _COUNTERS):
            continue
        metric = action.metric_by_name(name)
        count = metric.num_instances()
        if not count or not metric.has_correlation_ids():
            continue
        addresses = metric.correlation_ids()
        values = {addresses.as_uint64(at): metric.as_double(at) for at in range(count)}
        if any(values.values()):
            yield name, values


def _has_lines(action: Any, raw: Mapping[str, Mapping[int, float]]) -> bool:
    """Return whether the report knows lines of some instructions that have counters."""
    addresses = sorted({pc for values in raw.values() for pc in values})
    step = max(1, len(addresses) // _LINE_SAMPLES)
    found = (action.source_info(pc) for pc in addresses[::step])
    return any(info is not None and info.line() for info in found)


def _rename(counter: str) -> str:
    if counter == _SAMPLES:
        return "samples"
    found = _STALL.fullmatch(counter)
    return f"{STALL_PREFIX}{found['reason']}" if found else counter
