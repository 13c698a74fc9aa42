"""Parses what ``nvdisasm -c -hex -gi`` prints: functions with lines, labels and control bits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelkb.sass.function import Place, SassFunction
from kernelkb.sass.instruction import Instruction, decode_control, parse_instruction

_SECTION = re.compile(r"^\t\.section\t\.text\.(?P<name>[^\s,\"]+)")
_LABEL = re.compile(r"^(?P<label>\.L_\w+):")
_SUBROUTINE = re.compile(r"^(?P<label>\$[\w$]+):")
_PLACE = re.compile(r'^\t//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_CODE = re.compile(
    r"^\s*/\*(?P<offset>[0-9a-f]{4,})\*/\s+(?P<text>[^;]*);\s*/\* (?P<low>0x[0-9a-f]{16}) \*/"
)
_HIGH = re.compile(r"^\s*/\* (?P<high>0x[0-9a-f]{16}) \*/\s*$")


class _Builder:
    """Collects the instructions of one function."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._instructions: list[Instruction] = []
        self._places: list[tuple[Place, ...]] = []
        self._labels: dict[str, int] = {}
        self._chain: list[Place] = []
        self._is_chain_open = False
        self._pending: tuple[int, str] | None = None

    def add_label(self, label: str) -> None:
        """Add a label of the next instruction."""
        self._labels[label] = len(self._instructions)

    def start_subroutine(self, label: str) -> None:
        """Start code that the compiler put after the function's own; it has no lines of its own."""
        self.add_label(label)
        self._chain, self._is_chain_open = [], False

    def add_place(self, place: Place) -> None:
        """Add a line of the next instructions: the inner one first, then that of each call."""
        if not self._is_chain_open:
            self._chain = []
        self._is_chain_open = True
        self._chain.append(place)

    def add_code(self, offset: int, text: str) -> None:
        """Add an instruction, whose upper half follows."""
        self._pending = offset, text

    def add_high(self, high: int) -> None:
        """Complete the last instruction with the upper half of its encoding."""
        if self._pending is None:
            return
        offset, text = self._pending
        self._instructions.append(parse_instruction(offset, text, decode_control(high)))
        self._places.append(tuple(self._chain))
        self._pending, self._is_chain_open = None, False

    def build(self) -> SassFunction:
        """Return the function."""
        labels = {f"{one.offset:#x}": at for at, one in enumerate(self._instructions)}
        labels |= {k: at for k, at in self._labels.items() if at < len(self._instructions)}
        return SassFunction(self._name, tuple(self._instructions), tuple(self._places), labels)


def parse_disassembly(text: str) -> list[SassFunction]:
    """Return every function with at least one instruction, in the order of the file."""
    return [one for one in _iter_functions(text) if one.instructions]


def _iter_functions(text: str) -> Iterator[SassFunction]:
    builder: _Builder | None = None
    for line in text.splitlines():
        if found := _SECTION.match(line):
            if builder is not None:
                yield builder.build()
            builder = _Builder(found["name"])
        elif builder is None:
            continue
        elif found := _HIGH.match(line):
            builder.add_high(int(found["high"], 16))
        elif found := _CODE.match(line):
            builder.add_code(int(found["offset"], 16), found["text"])
        elif found := _PLACE.match(line):
            builder.add_place(Place(found["file"], int(found["line"])))
        elif found := _LABEL.match(line):
            builder.add_label(found["label"])
        elif found := _SUBROUTINE.match(line):
            builder.start_subroutine(found["label"])
    if builder is not None:
        yield builder.build()
