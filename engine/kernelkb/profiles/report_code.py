"""Finds the machine code of a launch in its report, each image disassembled once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.errors import KbError
from kernelkb.profiles.disassembler import (
    disassemble,
    explain_missing_disassembler,
    find_disassembler,
    iter_cubins,
)
from kernelkb.sass.function import Place, SassFunction
from kernelkb.sass.instruction import Instruction, parse_instruction

_WORKERS = 4
_SMALL_BYTES = 64 * 2**10
"""Of an image; disassembling one whole takes as long as starting nvdisasm (0.6 s, two cores)."""
_MAX_FORESEEN = 4
"""Images; of a report with more, not all are needed."""


class _Run(NamedTuple):
    """A run of nvdisasm on an image."""

    functions: Future[list[SassFunction]]
    names: frozenset[str] | None
    """Mangled, of what it disassembles; None: of all."""


class ReportImages:
    """The images with machine code in a report."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet; ``path`` is the report."""
        self._path = path
        self._pool = ThreadPoolExecutor(_WORKERS)  # each waits for a process
        self._runs: dict[bytes, _Run] = {}

    def start_small(self) -> None:
        """Start to disassemble them all if they are few and small, before it is asked for."""
        images = self._read(b"")
        if len(images) <= _MAX_FORESEEN and all(len(one) <= _SMALL_BYTES for one in images):
            for image in images:
                self._start(image, frozenset())

    def start(self, names: Collection[str]) -> None:
        """Start to disassemble functions, given by their mangled names: one run for each image."""
        held: dict[bytes, set[str]] = {}
        for name in names:
            for image in self._read(name.encode()):
                held.setdefault(image, set()).add(name)
        for image, own in held.items():
            self._start(image, frozenset(own))

    def find(self, name: str) -> Iterable[Future[list[SassFunction]]]:
        """Yield what each image that holds a name disassembles to; others may be among it."""
        for image in self._read(name.encode()):
            yield self._start(image, frozenset((name,)))

    def _read(self, name: bytes) -> list[bytes]:
        """Return the images that hold a name; symbols are not parsed: a library has thousands."""
        with self._path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            return list(iter_cubins(data, name))

    def _start(self, image: bytes, names: frozenset[str]) -> Future[list[SassFunction]]:
        key = blake2b(image).digest()
        run = self._runs.get(key)
        if run is None or (run.names is not None and not names <= run.names):
            wanted = None if len(image) <= _SMALL_BYTES else names
            functions = self._pool.submit(disassemble, image, None if wanted is None else [*wanted])
            run = self._runs[key] = _Run(functions, wanted)
        return run.functions


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
