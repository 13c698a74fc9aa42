"""Parses one instruction of SASS: what it does, its registers, and its control bits.

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
from functools import lru_cache
from typing import NamedTuple

_NONE = 7
_COUNT = 6


class Control(NamedTuple):
    """The control bits of one instruction."""

    stall_cycles: int
    """Before the next instruction of the warp may issue."""
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
        stall_cycles=high >> 41 & 15,
        write_scoreboard=None if write == _NONE else write,
        read_scoreboard=None if read == _NONE else read,
        waits_for=frozenset(index for index in range(_COUNT) if mask >> index & 1),
    )


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
