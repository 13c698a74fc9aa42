"""Finds the machine code of a launch in its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kernelkb.errors import KbError
from kernelkb.profiles.disassembler import explain_missing_disassembler, find_disassembler
from kernelkb.profiles.report_images import ReportImages
from kernelkb.sass.function import Place, SassFunction
from kernelkb.sass.instruction import Instruction, parse_instruction

_MAX_CODE_BYTES = 4 * 2**20
"""Of one function; chosen, as large as what ``static_analysis`` reads of one image."""
_UNREADABLE = "???"
"""What the report's reader says of an instruction that it cannot disassemble."""
_CHECKED_COUNT = 16
"""Instructions whose lines, or else texts, have to be the same in the report and in an image."""
_MAX_PADDING = 15
"""Instructions behind the last one that can run: a branch to itself, and NOPs up to 128 bytes."""
_SAME_LINES_SHARE = 0.75
"""Chosen: the report's reader names for code without a line the line before, and of code from
headers one of the lines."""


class ReadCode(NamedTuple):
    """The code of a launch."""

    function: SassFunction
    base: int
    """Address of its first instruction."""
    reason: str | None
    """Why it is only what the reader says: without control bits; None if it was disassembled."""


def read_function(
    action: Any, code: ReportImages, counted: Mapping[str, Mapping[int, float]]
) -> ReadCode:
    """Return the code of a launch: disassembled from an image, or else as the reader says it.

    Args:
        action: The launch.
        code: The images of its report.
        counted: Each counter with its values by address.

    Raises:
        KbError: The report is damaged.
    """
    name = action.name(action.NameBase_MANGLED)
    base = min(min(values) for values in counted.values() if values)
    if find_disassembler() is None:
        return ReadCode(
            _read_text(action, name, counted, base), base, explain_missing_disassembler()
        )
    reason = "the report holds no image of its code"
    for run in code.find(name):
        try:
            functions = run.result()
        except KbError as error:
            reason = str(error)
            continue
        for function in functions:
            if function.name == name and _is_same_code(action, function, counted, base):
                return ReadCode(function, base, None)
    return ReadCode(_read_text(action, name, counted, base), base, reason)


def _is_same_code(
    action: Any, function: SassFunction, raw: Mapping[str, Mapping[int, float]], base: int
) -> bool:
    """Return whether a function is the one that was counted.

    The lines of some instructions are compared; without lines, its size: up to the padding, all of
    it has counters. Their text is compared only where most lines differ: the report's reader
    disassembles the function for it, which takes most of a second.
    """
    addresses = sorted({pc for values in raw.values() for pc in values})
    index_of = {base + one.offset: at for at, one in enumerate(function.instructions)}
    known = [(pc, index_of[pc]) for pc in addresses if pc in index_of]  # others: functions it calls
    sampled = known[:: max(1, len(known) // _CHECKED_COUNT)]
    with_lines = [(pc, at) for pc, at in sampled if function.places[at]]
    if not with_lines:
        return bool(known) and known[-1][1] + _MAX_PADDING >= len(function.instructions) - 1
    same = sum(_has_same_line(action, function, pc, at) for pc, at in with_lines)
    if same >= _SAME_LINES_SHARE * len(with_lines):
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
