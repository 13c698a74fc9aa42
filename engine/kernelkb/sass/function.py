"""Reads the machine code of functions (SASS): instructions, control bits, lines, subroutines.

Instructions of variable latency (loads, stores, special functions, shuffles) count one of six
scoreboards up when they issue, and down when their result is written or their operands are read;
another instruction waits until a scoreboard is zero. The layout, of Volta and later: Jia, Maggioni,
Staiger, Scarpazza: Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018,
section 2.1.

Widths follow the operation: ``LDG.E.64 R2`` writes R2 and R3, ``HMMA`` reads and writes several
registers of each operand. Of an operation that is not listed, each register counts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

_NONE = 7
_COUNT = 6

_BRANCH_TABLE = re.compile(r"\.L_x_\d+")

_SECTION = re.compile(r"^\t\.section\t\.text\.(?P<name>[^\s,\"]+)")
_LABEL = re.compile(r"^(?P<label>\.L_\w+):")
_SUBROUTINE = re.compile(r"^(?P<label>\$[\w$]+):")
_PLACE = re.compile(r'^\t//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_CODE = re.compile(
    r"^\s*/\*(?P<offset>[0-9a-f]{4,})\*/\s+(?P<text>[^;]*);\s*/\* (?P<low>0x[0-9a-f]{16}) \*/"
)
_HIGH = re.compile(r"^\s*/\* (?P<high>0x[0-9a-f]{16}) \*/\s*$")

_GUARD = re.compile(r"@(!?)(U?P\d|U?PT)\s+")
_REGISTER = re.compile(r"(?<![\w.])[-~!|]*(U?R\d+|U?P\d|B\d+)((?:\.\w+)*)")
_TARGET = re.compile(r"(0x[0-9a-f]+|\.L_\w+|\$[\w$]+)")
_STORES = frozenset(
    {"ST", "STG", "STS", "STL", "STSM", "STAS", "RED", "REDG", "REDS", "REDAS", "REDUX.NONE"}
)
_WITHOUT_RESULT = _STORES | {
    "BAR", "BRA", "BRX", "JMP", "JMX", "BRXU", "CALL", "RET", "EXIT", "KILL", "BPT", "BREAK",
    "BSYNC", "WARPSYNC", "WARPSYNCALL", "NANOSLEEP", "NOP", "MEMBAR", "ERRBAR", "FENCE", "CCTL",
    "CCTLL", "DEPBAR", "LDGDEPBAR", "LDGSTS", "UBLKCP", "UBLKPF", "UBLKRED", "UTMALDG", "UTMASTG",
    "UTMAPF", "UTMAREDG", "UTMACCTL", "UTMACMDFLUSH", "SYNCS", "ARRIVES", "WARPGROUP", "YIELD",
    "PREEXIT", "ACQBULK", "CGAERRBAR", "USETMAXREG", "ELECT.NONE", "UCGABAR_ARV", "UCGABAR_WAIT",
}  # fmt: skip
"""Operations that write no register."""
_DOUBLE = frozenset({"DADD", "DMUL", "DFMA", "DSETP", "DMNMX", "DMMA"})
_CONDITIONAL_ENDS = ("EXIT", "RET", "KILL")
_BRACKET = re.compile(r"[\[({]")
_MAX_KEPT = 1 << 14
"""Operands and operations whose registers are remembered; a kernel has a few hundred."""
_SIZES = {"64": 2, "128": 4, "96": 3, "256": 8}
_MAX_DEPTH = 4
"""Subroutines that call one another."""


class Control(NamedTuple):
    """The control bits of one instruction."""

    write_scoreboard: int | None
    """Counted up until the result is written; None: its latency is fixed, or nothing waits."""
    read_scoreboard: int | None
    """Counted up until the operands are read, so that they may be overwritten."""
    waits_for: frozenset[int]
    """Scoreboards that have to be zero before it issues."""


def decode_control(high: int) -> Control:
    """Decode the control bits.

    Args:
        high: The upper 64 bits of the instruction's 128.
    """
    write, read, mask = high >> 46 & 7, high >> 49 & 7, high >> 52 & 63
    return Control(
        write_scoreboard=None if write == _NONE else write,
        read_scoreboard=None if read == _NONE else read,
        waits_for=frozenset(index for index in range(_COUNT) if mask >> index & 1),
    )


class Instruction(NamedTuple):
    """One instruction."""

    offset: int
    """Bytes from the start of its function."""
    text: str
    """As the disassembler writes it, without the semicolon."""
    opcode: str
    """Such as ``LDG``."""
    modifiers: tuple[str, ...]
    """Such as ``("E", "64", "CONSTANT")``."""
    guard: str
    """The predicate that decides whether it runs, with ``!`` where it is negated; empty: always."""
    writes: frozenset[str]
    """Registers, uniform registers and predicates: ``R4``, ``UR6``, ``P0``."""
    reads: frozenset[str]
    """The same, with the guard."""
    target: str
    """Where a branch goes: a label or an address in hexadecimal; empty: no branch."""
    control: Control | None = None
    """None where only the text is known."""

    @property
    def operation(self) -> str:
        """The opcode with its modifiers."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def is_conditional(self) -> bool:
        """Whether a predicate decides whether it runs."""
        return bool(self.guard) and self.guard not in ("PT", "UPT")

    @property
    def ends_flow(self) -> bool:
        """Whether nothing after it runs because of it."""
        if self.opcode in _CONDITIONAL_ENDS or self.opcode in ("BRA", "JMP", "BRX", "BRXU"):
            return not self.is_conditional and not self._has_condition
        return False

    @property
    def _has_condition(self) -> bool:
        """Whether a branch has a condition besides its guard, as ``BRA.DIV UR4, target`` has."""
        return "DIV" in self.modifiers or ("U" in self.modifiers and "UP" in self.text)


def list_address_registers(one: Instruction) -> frozenset[str]:
    """Return the registers of an instruction's addresses, with the one that guards it."""
    inside = (each for each in _list_operands(one) if "[" in each)
    guard = {one.guard.lstrip("!")} if one.is_conditional else set()
    return frozenset(name for each in inside for name in _list_registers(each, 1)) | guard


def list_operand_registers(one: Instruction, *positions: int) -> frozenset[str]:
    """Return the registers of operands; the first one, at 0, is the result."""
    chosen = (each for at, each in enumerate(_list_operands(one)) if at in positions)
    return frozenset(name for each in chosen for name in _list_registers(each, 1))


def _list_operands(one: Instruction) -> list[str]:
    body = one.text.partition(" ")[2] if one.text.startswith("@") else one.text
    return _split_operands(body.partition(" ")[2])


def parse_instruction(offset: int, text: str, control: Control | None = None) -> Instruction:
    """Parse an instruction.

    Args:
        offset: Bytes from the start of its function.
        text: As ``@!P0 LDG.E.64 R2, desc[UR4][R10.64+0x8]``; a semicolon at its end is ignored.
        control: Its control bits, if known.
    """
    text = " ".join(text.strip().rstrip(";").split())
    guard, body = "", text
    if found := _GUARD.match(text):
        guard, body = found[1] + found[2], text[found.end() :]
    operation, _, rest = body.partition(" ")
    opcode, *names = operation.split(".")
    modifiers = tuple(names)
    operands = _split_operands(rest)
    results = _count_results(opcode, operands)
    writes: set[str] = set()
    reads: set[str] = set()
    for index, operand in enumerate(operands):
        is_result = index < results
        width = _find_width(opcode, modifiers, index, is_result=is_result)
        (writes if is_result else reads).update(_list_registers(operand, width))
    if guard.lstrip("!") not in ("", "PT", "UPT"):
        reads.add(guard.lstrip("!"))
    return Instruction(
        offset, text, opcode, modifiers, guard, frozenset(writes), frozenset(reads),
        _find_target(opcode, rest), control,
    )  # fmt: skip


def _split_operands(text: str) -> list[str]:
    """Split at commas outside of brackets and parentheses."""
    if not _BRACKET.search(text):
        return [part.strip() for part in text.split(",")] if text else []
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return [*parts, part.strip()] if part.strip() else parts


def _count_results(opcode: str, operands: list[str]) -> int:
    """Return how many operands, from the first, are written.

    A predicate that follows a result is one too (``IADD3 R4, P0, R2, R3, RZ``), and so is a
    register that follows a predicate (``SHFL.BFLY PT, R3, R2, 0x8, 0x1f``).
    """
    if opcode in _WITHOUT_RESULT or not operands:
        return 0
    if opcode == "BSSY":
        return 1
    if opcode.endswith("SETP") or opcode in ("PLOP3", "UPLOP3", "R2P", "FCHK"):
        return 2 if len(operands) > 2 and _is_predicate(operands[1]) else 1
    count = 1
    first_is_predicate = _is_predicate(operands[0])
    if len(operands) > 2 and (first_is_predicate or _is_predicate(operands[1])):
        is_carry = opcode in ("SEL", "FSEL", "USEL", "FMNMX", "IMNMX", "VIADDMNMX")
        count += not is_carry
    return count


@lru_cache(_MAX_KEPT)
def _is_predicate(operand: str) -> bool:
    return re.fullmatch(r"U?P(\d|T)", operand) is not None


@lru_cache(_MAX_KEPT)
def _find_width(opcode: str, modifiers: tuple[str, ...], index: int, *, is_result: bool) -> int:
    """Return how many registers an operand stands for that is one register and no address."""
    if opcode in _DOUBLE:
        return 2
    if opcode in ("HMMA", "IMMA", "BMMA", "QMMA"):
        return _find_matrix_width(modifiers, index)
    if opcode in ("HGMMA", "QGMMA", "IGMMA"):
        return _find_group_width(modifiers, index)
    if "WIDE" in modifiers:
        return 2 if is_result or index == 3 else 1
    if opcode in ("LDSM", "STSM"):
        return next((int(m) for m in modifiers if m in ("2", "4")), 1) if index in (0, 1) else 1
    if opcode in ("F2F", "F2I", "I2F", "FRND"):
        return _find_conversion_width(modifiers, is_result=is_result)
    if opcode == "CS2R":
        return 1 if "32" in modifiers else 2
    if opcode in ("SHF", "SHL", "SHR", "MUFU", "LEA", "PRMT"):
        return 1
    return next((_SIZES[m] for m in modifiers if m in _SIZES), 1)


def _find_matrix_width(modifiers: tuple[str, ...], index: int) -> int:
    """Return the registers of an operand of ``HMMA.16816.F32 D, A, B, C`` and the like."""
    shape = next((m for m in modifiers if m.isdigit()), "16816")
    is_half = "F16" in modifiers and "F32" not in modifiers
    depth = {"1684": 1, "1688": 1, "16816": 2, "16832": 2, "16864": 2, "8816": 1}.get(shape, 2)
    return {0: 2 if is_half else 4, 1: 2 * depth, 2: depth, 3: 2 if is_half else 4}.get(index, 1)


def _find_group_width(modifiers: tuple[str, ...], index: int) -> int:
    """Return the registers of an operand of ``HGMMA.64x128x16.F32 D, A, gdesc[UR4], D``.

    The 64 x N sums lie in the registers of 128 threads.
    """
    shape = next((m for m in modifiers if m.startswith("64x")), "64x8x16")
    is_half = "F16" in modifiers and "F32" not in modifiers
    return 4 if index == 1 else int(shape.split("x")[1]) // (4 if is_half else 2)


def _find_conversion_width(modifiers: tuple[str, ...], *, is_result: bool) -> int:
    types = [m for m in modifiers if re.fullmatch(r"[FSU](8|16|32|64)", m)]
    if not types:
        return 1
    own = types[0] if is_result else types[-1]
    return 2 if own.endswith("64") else 1


@lru_cache(_MAX_KEPT)
def _list_registers(operand: str, width: int) -> tuple[str, ...]:
    """Return the registers that an operand names; those of an address have their own width."""
    names = []
    is_address = "[" in operand
    for name, suffix in _REGISTER.findall(operand):
        count = 2 if ".64" in suffix else 1
        if is_address and operand.startswith("desc[") and name.startswith("UR"):
            count = 2
        elif not is_address and name[0] == "R":
            count = max(count, width)
        elif not is_address and name.startswith("UR"):
            count = max(count, min(width, 2))
        kind, number = re.fullmatch(r"(\D+)(\d+)", name).groups()  # type: ignore[union-attr]
        names += [f"{kind}{int(number) + step}" for step in range(count)]
    return tuple(names)


def _find_target(opcode: str, rest: str) -> str:
    if opcode not in ("BRA", "JMP", "CALL", "BSSY", "BRX", "BREAK"):
        return ""
    found = _TARGET.findall(rest)
    return found[-1] if found else ""


class Place(NamedTuple):
    """Where in the source an instruction comes from."""

    file: str
    line: int


@dataclass(frozen=True)
class SassFunction:
    """A function of machine code."""

    name: str
    """Mangled."""
    instructions: tuple[Instruction, ...]
    places: tuple[tuple[Place, ...], ...]
    """Of each instruction, from its own line to the line of the kernel that the calls around it,
    which were inlined, stand in; empty where it has no line."""
    labels: Mapping[str, int]
    """Index of the instruction at each label, and at each address in hexadecimal."""

    @property
    def is_readable(self) -> bool:
        """Whether its instructions are known, not their places alone."""
        return all(one.opcode for one in self.instructions)

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """Of each instruction the indices of those that may run just before it."""
        return _invert(self.successors)

    @cached_property
    def successors(self) -> list[list[int]]:
        """Of each instruction the indices of those that may run just after it.

        A call is taken to return; where a return goes is not followed.
        """
        found = [self._list_jumps(index) for index in range(len(self.instructions))]
        for index, joins in self._find_joins(found).items():
            found[index] |= joins
        return [sorted(after) for after in found]

    def _list_jumps(self, index: int) -> set[int]:
        """Return where an instruction itself says that control goes."""
        one = self.instructions[index]
        after = set() if one.ends_flow or index + 1 == len(self.instructions) else {index + 1}
        if one.opcode in ("BRA", "JMP", "CALL", "BREAK") and one.target in self.labels:
            after.add(self.labels[one.target])
        if one.opcode in ("BRX", "BRXU"):
            after |= {self.labels[x] for x in _BRANCH_TABLE.findall(one.text) if x in self.labels}
        return after

    def _find_joins(self, successors: Sequence[set[int]]) -> dict[int, set[int]]:
        """Return where each ``BSYNC`` lets diverged threads go on: as the ``BSSY`` before it says.

        One barrier (``B0``) serves many branches of a function, one after another.
        """
        starts = [
            (index, next(iter(one.writes)), self.labels[one.target])
            for index, one in enumerate(self.instructions)
            if one.opcode == "BSSY" and one.writes and one.target in self.labels
        ]
        joins: dict[int, set[int]] = {}
        is_changed = True
        while is_changed:
            is_changed = False
            for start, barrier, target in starts:
                for index in self._find_syncs(start, barrier, successors, joins):
                    targets = joins.setdefault(index, set())
                    is_changed |= target not in targets
                    targets.add(target)
        return joins

    def _find_syncs(
        self, start: int, barrier: str, successors: Sequence[set[int]],
        joins: Mapping[int, set[int]],
    ) -> set[int]:  # fmt: skip
        """Return each ``BSYNC`` of a barrier that comes after its ``BSSY`` before another one."""
        seen: set[int] = set()
        pending, found = list(successors[start]), set()
        while pending:
            index = pending.pop()
            if index in seen:
                continue
            seen.add(index)
            one = self.instructions[index]
            if one.opcode == "BSYNC" and barrier in one.reads:
                found.add(index)
            elif one.opcode != "BSSY" or barrier not in one.writes:
                pending += [*successors[index], *joins.get(index, ())]
        return found

    def find_loops(self) -> list[frozenset[int]]:
        """Return the bodies of natural loops as indices, the innermost (smallest) first.

        A jump back is no loop where its target can be passed by: then it only joins the main path
        again, from code that the compiler put behind it.
        """
        successors, predecessors = self.successors, self.predecessors
        entries = [0, *(at for at, before in enumerate(predecessors) if at and not before)]
        backward: dict[int, list[int]] = {}
        for index, after in enumerate(successors):
            for head in after:
                if head < index and self.instructions[index].opcode != "CALL":
                    backward.setdefault(head, []).append(index)
        loops = []
        for head, ends in backward.items():
            passed_by = _find_reachable(entries, head, successors)
            loops += [_collect_body(head, at, predecessors) for at in ends if at not in passed_by]
        return sorted(loops, key=len)


def _invert(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in successors]
    for index, after in enumerate(successors):
        for successor in after:
            found[successor].append(index)
    return found


def _find_reachable(
    entries: Sequence[int], without: int, successors: Sequence[Sequence[int]]
) -> set[int]:
    """Return what can be reached without passing an instruction."""
    seen = {at for at in entries if at != without}
    pending = list(seen)
    while pending:
        for after in successors[pending.pop()]:
            if after != without and after not in seen:
                seen.add(after)
                pending.append(after)
    return seen


def _collect_body(head: int, last: int, predecessors: Sequence[Sequence[int]]) -> frozenset[int]:
    """Return what can reach the end of a loop without passing its head."""
    body, pending = {head, last}, [last] if last != head else []
    while pending:
        for before in predecessors[pending.pop()]:
            if before not in body and before >= head:
                body.add(before)
                pending.append(before)
    return frozenset(body)


def fill_called_places(function: SassFunction, executed: Mapping[int, float]) -> SassFunction:
    """Return a function in which code without lines has those of its call.

    Args:
        function: Disassembled, with the labels of its subroutines.
        executed: How often each instruction ran; of several calls the most frequent one counts.
    """
    calls: dict[int, list[int]] = {}
    for index, one in enumerate(function.instructions):
        if one.opcode == "CALL" and one.target in function.labels:
            calls.setdefault(function.labels[one.target], []).append(index)
    starts = sorted(calls)
    places = list(function.places)
    for _ in range(_MAX_DEPTH):
        for start, end in pairwise([*starts, len(places)]):
            callers = [index for index in calls[start] if places[index]]
            caller = max(callers, key=lambda index: executed.get(index, 0.0), default=None)
            if caller is None:
                continue
            for index in range(start, end):
                places[index] = places[index] or places[caller]
    return replace(function, places=tuple(places))


def fill_calling_places(places: Sequence[tuple[Place, ...]]) -> tuple[tuple[Place, ...], ...]:
    """Return the places, with the line of the kernel around those of a library without it.

    Triton tells only the innermost line: ``tl.sum`` lies in its ``standard.py``. The call is taken
    to be the nearest line before it in the kernel's own folder, where the first instruction lies.
    """
    outer = [chain[-1] for chain in places if chain]
    folders = {get_folder(place.file) for place in outer}
    if len(folders) < 2:
        return tuple(places)
    own = get_folder(outer[0].file)
    call, found = outer[0], []
    for chain in places:
        is_own = not chain or get_folder(chain[-1].file) == own
        call = chain[-1] if chain and is_own else call
        found.append(chain if is_own else (*chain, call))
    return tuple(found)


def get_folder(path: str) -> str:
    """Return the folder of a path as a compiler wrote it."""
    return path.replace("\\", "/").rpartition("/")[0]


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
        places = fill_calling_places(self._places)
        return SassFunction(self._name, tuple(self._instructions), places, labels)


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
