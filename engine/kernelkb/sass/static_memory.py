"""Finds the widths of memory accesses, local memory, and tiles of shared memory read only once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from kernelkb.model.answers.static_facts import StaticFact, StaticKind
from kernelkb.sass.function import Instruction
from kernelkb.sass.static_dataflow import MAX_TRACED, Code, make_fact

_SPACES: dict[str, tuple[StaticKind, str]] = {
    "LDG": ("global-width", "global load"), "LD": ("global-width", "global load"),
    "STG": ("global-width", "global store"), "ST": ("global-width", "global store"),
    "LDGSTS": ("global-width", "copy from global to shared memory"),
    "LDS": ("shared-width", "shared load"), "STS": ("shared-width", "shared store"),
}  # fmt: skip
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "96": 12, "128": 16, "256": 32}
_DEFAULT_BYTES = 4
_NARROW_BYTES = 8
"""Below it an access is narrow."""
_WIDEST_BYTES = 16
_ADDRESS = re.compile(
    r"\[(?P<base>U?R\d+)[^\]+-]*(?P<uniform>\+UR\d+)?(?P<offset>\+-?0x[0-9a-f]+)?\]"
)
_STACK = re.compile(r"\[R1(\+-?0x[0-9a-f]+)?\]")


def find_width(one: Instruction) -> int:
    """Return the bytes that a lane accesses."""
    return next((_BYTES[m] for m in one.modifiers if m in _BYTES), _DEFAULT_BYTES)


def find_widths(code: Code) -> Iterator[StaticFact]:
    """Yield the accesses of each width; narrow ones in main loops are notable, if there are any.

    A kernel without a loop around an access of that memory is judged as a whole, and there 4 bytes
    are not narrow: a warp's 128 bytes fill its lines as well as those of a wider access.
    """
    groups: dict[tuple[StaticKind, str, int], list[int]] = defaultdict(list)
    for index in code.own:
        one = code.function.instructions[index]
        if one.opcode in _SPACES:
            groups[*_SPACES[one.opcode], find_width(one)].append(index)
    looped = {kind for (kind, _, _), found in groups.items() if not code.main.isdisjoint(found)}
    for (kind, what, width), found in sorted(groups.items()):
        inner = [index for index in found if index in code.main]
        judged = inner if kind in looped else found
        limit = _NARROW_BYTES if kind in looped else _DEFAULT_BYTES
        notable = kind == "global-width" and width < limit and bool(judged)
        words = f"{what} of {_format_bytes(width)} a lane"
        if inner:
            words += " in the innermost loop"
        chosen = judged if notable else inner or found
        yield make_fact(code, kind, words, chosen, amount=width, notable=notable)


def find_neighbours(code: Code) -> Iterator[StaticFact]:
    """Yield the accesses at addresses side by side that one wider access might replace."""
    runs: dict[tuple[str, int], list[int]] = defaultdict(list)
    for group in _group_by_base(code):
        for run in _split_at_gaps(code, group):
            first = code.function.instructions[run[0]]
            width = find_width(first)
            total = min(_WIDEST_BYTES, width * (1 << (len(run).bit_length() - 1)))
            if total > width:
                runs[_SPACES[first.opcode][1], total].extend(run)
    for (what, total), found in sorted(runs.items()):
        words = f"{what}s side by side, which one of {total} bytes may replace if it is aligned"
        yield make_fact(code, "neighbouring-accesses", words, found, amount=total, notable=True)


def _group_by_base(code: Code) -> Iterator[list[int]]:
    """Yield accesses of one operation and one base, which nothing changes between them."""
    targets = code.targets
    groups: dict[tuple[str, str, str, str], list[int]] = {}
    for index in code.own:
        one = code.function.instructions[index]
        if index in targets and groups:
            yield from groups.values()
            groups = {}
        found = _ADDRESS.search(one.text.replace("desc[", "", 1))
        is_plain = one.opcode in _SPACES and one.opcode != "LDGSTS"
        if found is not None and is_plain and find_width(one) < _WIDEST_BYTES:
            key = one.operation, found["base"], found["uniform"] or "", one.guard
            groups.setdefault(key, []).append(index)
        for key in [key for key in groups if key[1] in one.writes or key[2][1:] in one.writes]:
            yield groups.pop(key)
    yield from groups.values()


def _split_at_gaps(code: Code, group: list[int]) -> Iterator[list[int]]:
    """Yield runs of two and more accesses whose offsets follow one another."""
    offsets: dict[int, int] = {}
    for index in group:
        found = _ADDRESS.search(code.function.instructions[index].text.replace("desc[", "", 1))
        offset = found["offset"] if found is not None else None
        offsets[int(offset[1:], 16) if offset else 0] = index
    width = find_width(code.function.instructions[group[0]])
    run: list[int] = []
    last: int | None = None
    for offset, index in sorted(offsets.items()):
        if last is not None and offset != last + width:
            if len(run) > 1:
                yield run
            run = []
        run.append(index)
        last = offset
    if len(run) > 1:
        yield run


def find_local(code: Code, spill_bytes: int | None = None) -> Iterator[StaticFact]:
    """Yield what lies in local memory: arrays that are indexed at run time, and spilled registers.

    Args:
        code: The function.
        spill_bytes: Bytes that ptxas says it spills. None: unknown, and then accesses at fixed
            places of the stack are spills where there is no array.
    """
    local = [i for i in code.own if code.function.instructions[i].opcode in ("LDL", "STL")]
    fixed = [i for i in local if _STACK.search(code.function.instructions[i].text)]
    moving = sorted(set(local) - set(fixed))
    if spill_bytes == 0 or (spill_bytes is None and moving):
        moving, fixed = local, []
    if moving:
        words = f"a local array: {_count_accesses(code, moving)}"
        yield make_fact(code, "local-array", words, moving, notable=True)
    if fixed:
        words = f"spilled registers: {_count_accesses(code, fixed)}"
        if moving:
            words += "; some may be of the array"
        yield make_fact(code, "spill", words, fixed, notable=True)


def _count_accesses(code: Code, indices: Iterable[int]) -> str:
    chosen = list(indices)
    loads = sum(code.function.instructions[index].opcode == "LDL" for index in chosen)
    looped = sum(index in code.depths for index in chosen)
    words = f"{loads} loads and {len(chosen) - loads} stores of local memory"
    return f"{words}, {looped} of them in loops" if looped else words


def _format_bytes(width: int) -> str:
    return "1 byte" if width == 1 else f"{width} bytes"


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
