"""Reads what a report counted at each instruction: samples by stall, accesses, their lines.

Only ``.ncu-rep`` files hold this, and only where they were recorded with source counters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelkb.errors import KbError
from kernelkb.installing import format_install_command
from kernelkb.profiles.ncu_rep import LoadedReport, load_report, read_function
from kernelkb.profiles.reader_process import ReaderProcess, has_reader, read_in_process
from kernelkb.sass.counters import STALL_PREFIX, SourceCounters
from kernelkb.sass.function import fill_called_places

_STALL = re.compile(r"smsp__pcsamp_warps_issue_stalled_(?P<reason>\w+?)(?P<idle>_not_issued)?")
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
