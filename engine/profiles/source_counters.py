"""Reads what a report counted at each instruction: samples by stall, accesses, their lines.

Only ``.ncu-rep`` files hold this, and only where they were recorded with source counters.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kernelkb.errors import KbError
from kernelkb.profiles.disassembler import (
    NO_DISASSEMBLER,
    disassemble,
    find_disassembler,
    iter_cubins,
)
from kernelkb.profiles.reader_process import has_reader, read_in_process
from kernelkb.sass.calls import fill_called_places
from kernelkb.sass.counters import STALL_PREFIX, SourceCounters
from kernelkb.sass.function import Place, SassFunction
from kernelkb.sass.instruction import Instruction, parse_instruction

_READERS = 4
"""Launches that are read, and in memory, at once."""
_NO_READER = "the lines of a report take the ncu-report package: pip install 'kernelkb[reports]'"
_MAX_CODE_BYTES = 4 * 2**20
"""Of one function; chosen, as large as what ``static_analysis`` reads of one image."""
_UNREADABLE = "???"
"""What the report's reader says of an instruction that it cannot disassemble."""
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
_CHECKED_COUNT = 16
"""Instructions whose lines, or else texts, have to be the same in the report and in an image."""
_SAME_LINES_SHARE = 0.75
"""Chosen: the report's reader names for code without a line the line before, and of code from
headers one of the lines."""


def read_source_counters(
    path: Path, launches: Sequence[int], *, without_lines: int | None = None
) -> list[SourceCounters | str | None]:
    """Return what launches counted at each instruction.

    Args:
        path: A ``.ncu-rep`` file.
        launches: Indices, in the order of ``read_report``.
        without_lines: How many, from the first on, are read even if they have no lines, for what
            their code shows: disassembling takes up to a second each. None: all.

    Returns:
        For each launch: None where the report has none of it, and a text where it cannot be read.
    """
    if not has_reader():
        return [_NO_READER] * len(launches)
    try:
        return read_in_process(_load_all, path, launches, without_lines)
    except KbError as error:
        return [str(error)] * len(launches)


def _load_all(
    path: Path, launches: Sequence[int], without_lines: int | None
) -> list[SourceCounters | str | None]:
    def load(position: int) -> SourceCounters | str | None:
        needs_lines = without_lines is not None and position >= without_lines
        try:
            return load_source_counters(path, launches[position], needs_lines=needs_lines)
        except KbError as error:
            return str(error)

    with ThreadPoolExecutor(_READERS) as pool:  # each waits for a disassembler of its own
        return list(pool.map(load, range(len(launches))))


def load_source_counters(
    path: Path, launch: int, *, needs_lines: bool = False
) -> SourceCounters | None:
    """Return what a launch counted, read in this process, which a damaged report may end.

    Args:
        path: A ``.ncu-rep`` file.
        launch: Index.
        needs_lines: Whether it is of no use without them.

    Raises:
        KbError: The report holds no such launch, or is damaged; or it has no lines, but needs them.
    """
    reader = importlib.import_module("ncu_report")
    action = _load_launch(reader.load_report(str(path)), launch)
    raw = dict(_read_counters(action))
    if _SAMPLES not in raw and _EXECUTED not in raw:
        return None
    if needs_lines and not _has_lines(action, raw):
        raise KbError(_WITHOUT_LINES)
    name = action.name(action.NameBase_MANGLED)
    base = min(min(values) for values in raw.values() if values)
    function, notes = _read_function(action, path, name, raw, base)
    index_of = {base + one.offset: at for at, one in enumerate(function.instructions)}
    counters = {
        _rename(counter): {index_of[pc]: value for pc, value in values.items() if pc in index_of}
        for counter, values in raw.items()
    }
    samples = raw.get(_SAMPLES, {})
    return SourceCounters(
        function=fill_called_places(function, counters.get(_EXECUTED, {})),
        raw=counters,
        sources=dict(action.source_files()),
        outside=sum(value for pc, value in samples.items() if pc not in index_of),
        notes=notes,
    )


def _load_launch(context: Any, launch: int) -> Any:
    """Return one launch; each one that is touched is loaded as a whole."""
    for number in range(context.num_ranges()):
        part = context.range_by_idx(number)
        count = part.num_actions()
        if launch < count:
            return part.action_by_idx(launch)
        launch -= count
    raise KbError("the report holds no such launch")


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


def _read_function(
    action: Any, path: Path, name: str, raw: Mapping[str, Mapping[int, float]], base: int
) -> tuple[SassFunction, tuple[str, ...]]:
    """Return the code: disassembled from the image in the report, or else as the report says."""
    if find_disassembler() is None:
        return _read_text(action, name, raw, base), (NO_DISASSEMBLER,)
    reason = "the report holds no image of its code"
    for cubin in iter_cubins(path.read_bytes()):
        if name.encode() not in cubin:  # a library's has thousands of symbols, slow to parse
            continue
        try:
            functions = disassemble(cubin, [name])
        except KbError as error:
            reason = str(error)
            continue
        for function in functions:
            if function.name == name and _is_same_code(action, function, raw, base):
                return function, ()
    return _read_text(action, name, raw, base), (reason,)


def _is_same_code(
    action: Any, function: SassFunction, raw: Mapping[str, Mapping[int, float]], base: int
) -> bool:
    """Return whether the report says the same of some instructions that have counters.

    Their lines are compared; their text, for which the report's reader disassembles the function,
    takes half a second, so only where most lines differ or there are none.
    """
    addresses = sorted({pc for values in raw.values() for pc in values})
    index_of = {base + one.offset: at for at, one in enumerate(function.instructions)}
    known = [(pc, index_of[pc]) for pc in addresses if pc in index_of]  # others: functions it calls
    sampled = known[:: max(1, len(known) // _CHECKED_COUNT)]
    with_lines = [(pc, at) for pc, at in sampled if function.places[at]]
    same = sum(_has_same_line(action, function, pc, at) for pc, at in with_lines)
    if with_lines and same >= _SAME_LINES_SHARE * len(with_lines):
        return True
    return all(_has_same_operation(action, function, pc, at) for pc, at in sampled)


def _has_same_line(action: Any, function: SassFunction, pc: int, at: int) -> bool:
    info = action.source_info(pc)
    return info is not None and any(info.line() == place.line for place in function.places[at])


def _has_same_operation(action: Any, function: SassFunction, pc: int, at: int) -> bool:
    said = parse_instruction(0, action.sass_by_pc(pc))
    return bool(said.operation == function.instructions[at].operation)


def _read_text(
    action: Any, name: str, raw: Mapping[str, Mapping[int, float]], base: int
) -> SassFunction:
    """Return the code as the report says it: without control bits, inner lines only.

    Of a GPU that the report's reader knows no more (sm_70 in 2026), only the lines are known.

    Raises:
        KbError: The addresses are too far apart for one function.
    """
    last = max(pc for values in raw.values() for pc in values)
    if last - base > _MAX_CODE_BYTES:
        raise KbError("the report's addresses are those of no code; is it damaged?")
    instructions: list[Instruction] = []
    places: list[tuple[Place, ...]] = []
    labels: dict[str, int] = {}
    for pc in range(base, last + 16, 16):
        text = action.sass_by_pc(pc)
        if not text:
            continue
        if text == _UNREADABLE:
            text = ""
        labels[f"{pc:#x}"] = len(instructions)
        instructions.append(parse_instruction(pc - base, text))
        info = action.source_info(pc)
        places.append((Place(info.file_name(), info.line()),) if info is not None else ())
    return SassFunction(name, tuple(instructions), tuple(places), labels)
