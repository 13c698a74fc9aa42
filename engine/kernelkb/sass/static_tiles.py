"""Finds out whether a tile that a kernel stages in shared memory is read more than once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kernelkb.sass.instruction import Instruction
from kernelkb.sass.static_dataflow import MAX_TRACED
from kernelkb.sass.static_loops import Code
from kernelkb.sass.static_memory import find_width

_BULK_COPIES = frozenset({"UBLKCP", "UTMALDG"})
_SHARED_LOADS = frozenset({"LDS", "LDSM"})
_REMOTE_LOADS = frozenset({"LDG", "LD"})
GROUP_MATRIX = re.compile(r"[HIQBO]GMMA|UTC\w*MMA\w*")
"""Matrix instructions of a warpgroup and more, which take operands from shared memory."""
_CONVERSIONS = frozenset(
    {"MOV", "IMAD.MOV", "SEL", "FSEL", "PRMT", "I2F", "I2FP", "F2F", "F2FP", "HADD2.F32"}
)
"""Between a load and the store of a staged value; arithmetic makes another value of it."""
_MAX_CONVERSIONS = 4
_REUSED_RATIO = 1.5
"""Bytes that are read for each byte that is staged, where no loop repeats the reads. A stencil of
three points reads 3, a transpose 1; judgement."""


def find_tile_reuse(code: Code) -> bool | None:
    """Return whether data staged in shared memory is read more than once; None: code does not tell.

    A read in a loop inside the one that stages is repeated; so are the reads of matrix instructions
    that take their operands from shared memory. Where one loop fills a tile and another reads it,
    how often each runs is not in the code, nor is it what a value is that was computed before it
    was stored.
    """
    if len(code.own) > MAX_TRACED:
        return None
    instructions = code.function.instructions
    staging = _list_staging(code)
    if any(GROUP_MATRIX.fullmatch(instructions[at].opcode) for at in code.own):
        return True if staging else None
    stores = [at for at in code.own if instructions[at].opcode == "STS"]
    if not staging:
        return None if stores else False
    reads = [at for at in code.own if _is_shared_load(instructions[at])]
    scopes = _list_scopes(code, staging, reads)
    found = {_is_read_again(code, scope, staging, reads) for scope in scopes}
    if True in found:
        return True
    return None if None in found or not set(stores) <= set(staging) else False


def _is_shared_load(one: Instruction) -> bool:
    """Whether it loads; compilers put loads that never run in front of ``LDGSTS``."""
    return one.opcode in _SHARED_LOADS and one.guard != "!PT"


def _list_staging(code: Code) -> list[int]:
    """Return the instructions that put data of global memory into shared memory as it is."""
    instructions = code.function.instructions
    copies = [
        at
        for at in code.own
        if instructions[at].opcode == "LDGSTS" or instructions[at].opcode in _BULK_COPIES
    ]
    stores = [at for at in code.own if instructions[at].opcode == "STS"]
    if not stores or code.dependences is None:
        return copies
    within = code.dependences.within
    return copies + [at for at in stores if _comes_from_global(instructions, within, at)]


def _comes_from_global(
    instructions: tuple[Instruction, ...], within: Mapping[int, Iterable[int]], store: int
) -> bool:
    """Return whether a result of a load reaches a store, but for conversions."""
    reached = set(within.get(store, ()))
    for _ in range(_MAX_CONVERSIONS):
        if any(instructions[at].opcode in _REMOTE_LOADS for at in reached):
            return True
        passed = {at for at in reached if _is_conversion(instructions[at])}
        reached = {source for at in passed for source in within.get(at, ())}
    return False


def _is_conversion(one: Instruction) -> bool:
    return one.opcode in _CONVERSIONS or one.operation in _CONVERSIONS


def _list_scopes(code: Code, staging: list[int], reads: list[int]) -> list[frozenset[int]]:
    """Return the innermost loops that stage and read; the whole function where there is none."""
    both = [
        loop.body
        for loop in code.loops
        if not loop.body.isdisjoint(staging) and not loop.body.isdisjoint(reads)
    ]
    innermost = [body for body in both if not any(other < body for other in both)]
    return innermost or [frozenset(code.own)]


def _is_read_again(
    code: Code, scope: frozenset[int], staging: list[int], reads: list[int]
) -> bool | None:
    """Return whether one pass reads more than it stages; None where that is not known."""
    stores = [at for at in staging if at in scope]
    loads = [at for at in reads if at in scope]
    depth = max(code.depths.get(at, 0) for at in stores)
    inner = [loop.body for loop in code.loops if loop.body < scope]
    fills = [body for body in inner if not body.isdisjoint(stores)]
    if any(code.depths.get(at, 0) > depth for at in loads) and not fills:
        return True
    instructions = code.function.instructions
    if fills or any(instructions[at].opcode in _BULK_COPIES for at in stores):
        return None
    staged = sum(find_width(instructions[at]) for at in stores)
    return sum(_find_read_bytes(instructions[at]) for at in loads) > _REUSED_RATIO * staged


def _find_read_bytes(one: Instruction) -> int:
    """Return the bytes that a lane gets; ``LDSM`` loads 1, 2 or 4 matrices, 4 bytes of each."""
    if one.opcode == "LDSM":
        return 4 * next((int(m) for m in one.modifiers if m in ("1", "2", "4")), 1)
    return find_width(one)
