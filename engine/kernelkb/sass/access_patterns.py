"""Says in words how the lanes of a warp access memory, from what was counted at each instruction.

The counters are means over all warps: how many sectors of 32 bytes and lines of 128 bytes an
instruction touches, and how many passes it takes in shared memory. What they leave open, as whether
lanes are at a constant distance or scattered, is not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from kernelkb.sass.counters import SourceCounters
from kernelkb.sass.function import Instruction
from kernelkb.sass.static_instructions import find_width

Memory = Literal["global", "shared"]

_WARP_LANES = 32
_SECTOR_BYTES = 32
_LINE_BYTES = 128
_LINE_SECTORS = 4
_MATRIX_ROWS = 8
"""Of 16 bytes, which ``LDSM`` and ``STSM`` move in one pass."""
_BANK_BYTES = 4
_ATOMIC_BYTES = {"F16": 2, "BF16": 2, "F64": 8, "F32x2": 8, "F32x4": 16}
"""Of the types that only atomic operations name."""
_VERBS = {
    "LD": "load", "LDG": "load", "ST": "store", "STG": "store", "LDGSTS": "asynchronous copy",
    "ATOM": "atomic", "ATOMG": "atomic", "RED": "atomic", "REDG": "atomic",
}  # fmt: skip
_SHARED_VERBS = {
    "LDS": "load", "STS": "store", "LDSM": "load of matrices", "STSM": "store of matrices",
    "ATOMS": "atomic", "LDGSTS": "asynchronous copy",
}  # fmt: skip
_SLACK = 0.03
"""Chosen: means this near to each other are the same."""
_MISALIGNED_SECTORS = 1.05
"""More than needed, at most, where lanes lie in a row that starts inside of a sector."""
_ALL_LANES = 31.5
_ONE_SECTOR = "all in one sector"


class AccessPattern(NamedTuple):
    """How a warp accesses memory at one instruction, on average."""

    at: int
    """Index of the instruction."""
    memory: Memory
    verb: str
    executed: float
    """How often warps executed it."""
    lanes: float
    """That take part, 1 to 32."""
    lane_bytes: int
    units: float
    """Sectors a request, or passes in shared memory."""
    ideal_units: float
    """What the same lanes would need in a row, or without bank conflicts."""
    lines: float
    """Of 128 bytes in global memory that a request touches; 0 where it touches none."""
    is_guarded: bool
    """Whether a predicate decides what lanes take part: the means then hold warps of which none
    does."""

    @property
    def has_all_lanes(self) -> bool:
        """Whether all lanes take part, in nearly all warps."""
        return self.lanes >= _ALL_LANES

    @property
    def is_good(self) -> bool:
        """Whether it needs no more than the same lanes would in a row."""
        return self.units <= self.ideal_units * (1 + _SLACK)

    @property
    def total(self) -> float:
        """Sectors, or passes, of all warps."""
        return self.executed * self.units


def find_access_patterns(
    counters: SourceCounters, only: int | None = None
) -> Iterator[AccessPattern]:
    """Yield the accesses of a launch; asynchronous copies have two, others one.

    Those of tensor units, bulk copies and local memory have none: nothing is counted of their
    addresses.

    Args:
        counters: Of the launch.
        only: Index of one instruction; None: all.
    """
    executed = counters.raw.get("inst_executed", {})
    for at in sorted(executed) if only is None else [only]:
        count = executed.get(at, 0.0)
        instruction = counters.function.instructions[at]
        if count > 0 and instruction.opcode in _VERBS:
            yield from _read_global(counters, at, instruction, count)
        if count > 0 and instruction.opcode in _SHARED_VERBS:
            yield from _read_shared(counters, at, instruction, count)


def _read_global(
    counters: SourceCounters, at: int, instruction: Instruction, count: float
) -> Iterator[AccessPattern]:
    sectors, ideal, lines = (
        counters.raw.get(name, {}).get(at, 0.0) / count
        for name in (
            "memory_l2_theoretical_sectors_global",
            "memory_l2_theoretical_sectors_global_ideal",
            "memory_l1_tag_requests_global",
        )
    )
    lanes = _count_lanes(counters, at, count)
    if sectors > 0 and ideal > 0 and lines > 0 and lanes:
        width, guarded = _find_bytes(instruction), bool(instruction.guard)
        verb = _VERBS[instruction.opcode]
        yield AccessPattern(at, "global", verb, count, lanes, width, sectors, ideal, lines, guarded)


def _read_shared(
    counters: SourceCounters, at: int, instruction: Instruction, count: float
) -> Iterator[AccessPattern]:
    passes, ideal, lines = (
        values.get(at, 0.0) / count
        for values in (
            counters.raw.get("memory_l1_wavefronts_shared", {}),
            counters.list_least_passes(),
            counters.list_copied_lines(),
        )
    )
    lanes = _count_lanes(counters, at, count)
    if passes > 0 and ideal > 0 and lanes:
        width, guarded = _find_bytes(instruction), bool(instruction.guard)
        verb = _SHARED_VERBS[instruction.opcode]
        yield AccessPattern(at, "shared", verb, count, lanes, width, passes, ideal, lines, guarded)


def _count_lanes(counters: SourceCounters, at: int, count: float) -> float:
    for name in ("thread_inst_executed_true", "thread_inst_executed"):
        if name in counters.raw:
            return counters.raw[name].get(at, 0.0) / count
    return 0.0


def _find_bytes(one: Instruction) -> int:
    named = (_ATOMIC_BYTES[name] for name in one.modifiers if name in _ATOMIC_BYTES)
    return next(named, find_width(one))


def describe_access(pattern: AccessPattern) -> str:
    """Return a pattern in words, without a full stop.

    Such as ``each load: 32 lanes x 4 bytes, as 8 bytes apart: 8 sectors in 2 lines, 4 would do``.
    """
    if pattern.memory == "shared":
        return _describe_shared(pattern)
    shape = _describe_shape(pattern)
    start = f"each {pattern.verb}: {_describe_lanes(pattern)}{shape and f', {shape}'}"
    if shape == _ONE_SECTOR:
        return start
    needed = _count(pattern.units, "sector")
    if not _is_near(pattern.lines, 1):
        needed += f" in {_count(pattern.lines, 'line')}"
    spare = "" if pattern.is_good else f", {_number(pattern.ideal_units)} would do"
    return f"{start}: {needed}{spare}"


def _describe_lanes(pattern: AccessPattern) -> str:
    size = f"{pattern.lane_bytes} byte{'s' if pattern.lane_bytes > 1 else ''}"
    if pattern.has_all_lanes:
        return f"32 lanes x {size}"
    return f"{_number(pattern.lanes)} of 32 lanes x {size}"


def _describe_shape(pattern: AccessPattern) -> str:
    """Return where the lanes lie, as far as the counters tell; else nothing."""
    sectors, ideal, lines = pattern.units, pattern.ideal_units, pattern.lines
    if pattern.is_guarded and not pattern.has_all_lanes:
        return ""
    asked = pattern.lanes * pattern.lane_bytes
    if _is_near(sectors, 1) and asked > _SECTOR_BYTES:
        return _ONE_SECTOR
    if sectors < ideal * (1 - _SLACK) or asked > sectors * _SECTOR_BYTES * (1 + _SLACK):
        return "of which some share an address"
    least_lines = max(1.0, asked / _LINE_BYTES)
    if pattern.is_good and lines <= least_lines * (1 + _SLACK):
        return "in a row"
    if pattern.is_good:
        return _describe_pieces(pattern)
    if sectors - ideal <= _MISALIGNED_SECTORS and lines <= least_lines + 1 + _SLACK:
        return "in a row that does not start at a sector"
    if _is_near(lines, pattern.lanes):
        return "each in another line of 128 bytes"
    return _describe_distance(pattern) or _describe_pieces(pattern)


def _describe_distance(pattern: AccessPattern) -> str:
    """Return how far a lane is from the next, where the counters are those of a constant distance.

    Sectors side by side in as few lines as they can be, or each lane in a sector of its own.
    """
    sectors, lines, lane_bytes = pattern.units, pattern.lines, pattern.lane_bytes
    if not pattern.has_all_lanes:
        return ""
    if _is_near(sectors, _WARP_LANES) and lane_bytes <= _SECTOR_BYTES:
        distance = lines * _LINE_BYTES / _WARP_LANES
        if distance in (32, 64):
            return f"as {distance:.0f} bytes apart"
        if not _is_whole(lines):  # a mean: warps differ, as where lanes are scattered
            return ""
        least = max(_SECTOR_BYTES, (lines - 2) * _LINE_BYTES / (_WARP_LANES - 1))
        return f"as {least:.0f} to {lines * _LINE_BYTES / (_WARP_LANES - 1):.0f} bytes apart"
    if lines > 1 + (sectors - 1) / _LINE_SECTORS + _SLACK * lines:
        return ""
    for covered in (sectors, sectors - 1):  # from a sector's start, and from anywhere in one
        distance = covered * _SECTOR_BYTES / _WARP_LANES
        if _is_near(distance, lane_bytes * round(distance / lane_bytes)):
            return f"as {lane_bytes * round(distance / lane_bytes)} bytes apart"
    return ""


def _describe_pieces(pattern: AccessPattern) -> str:
    """Return the pieces that a warp's lanes lie in, one for each line; nothing where they differ.

    Their sectors have to be those of as many bytes, in one sector more at most.
    """
    lanes = pattern.lanes / pattern.lines
    size = lanes * pattern.lane_bytes
    per_line = pattern.units / pattern.lines
    fits = per_line <= max(1.0, size / _SECTOR_BYTES) + 1
    if not fits or pattern.lines < 2 or not _is_whole(pattern.lines) or not _is_whole(lanes):
        return ""
    told = f"in {pattern.lines:.0f} pieces of {size:.0f} bytes"
    return told if _is_near(lanes, 1) else f"{told}, {lanes:.0f} lanes each"


def _describe_shared(pattern: AccessPattern) -> str:
    passes = _count(pattern.units, "pass", "passes")
    start = f"each {pattern.verb} in shared memory: {_describe_lanes(pattern)}"
    if pattern.verb.endswith("matrices"):
        start = f"each {pattern.verb} in shared memory"
    if pattern.is_good:
        row = pattern.lanes * pattern.lane_bytes / _LINE_BYTES
        by_line = _is_near(pattern.units, pattern.lines) and pattern.units > max(1.0, row) + _SLACK
        return f"{start}, {'one for each line' if by_line else 'without bank conflicts'}: {passes}"
    degree = pattern.units / pattern.ideal_units
    return f"{start}, {_describe_banks(pattern, degree)}: {passes}, " + (
        f"{_number(pattern.ideal_units)} would do"
    )


def _describe_banks(pattern: AccessPattern, degree: float) -> str:
    if pattern.verb.endswith("matrices"):
        if _is_near(degree, _MATRIX_ROWS):
            return "all 8 rows of a matrix in the same banks, as rows a multiple of 128 bytes apart"
        return f"{_number(degree)} of the 8 rows of a matrix in the same banks"
    if pattern.lane_bytes != _BANK_BYTES or not _is_whole(degree):
        return "with bank conflicts"
    if _is_near(degree, pattern.lanes):
        return "all in one bank, as at a distance of 128 bytes"
    told = f"{degree:.0f} in one bank"
    stride = degree * _BANK_BYTES
    return f"{told}, as at a distance of {stride:.0f} bytes" if degree in (2, 4, 8, 16) else told


def _is_near(value: float, other: float) -> bool:
    return abs(value - other) <= _SLACK * other


def _is_whole(value: float) -> bool:
    return abs(value - round(value)) <= _SLACK


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _count(value: float, one: str, many: str = "") -> str:
    number = _number(value)
    return f"{number} {one if number == '1' else many or one + 's'}"
