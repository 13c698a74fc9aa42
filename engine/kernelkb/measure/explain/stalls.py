"""Says what the threads of a kernel that does not end wait for, and where.

Read from the machine code around each program counter, and from registers and shared memory of one
thread that is there. The layout of an mbarrier is not documented: it was read on an H200.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from kernelkb.errors import KbError
from kernelkb.measure.explain.debugger import (
    STEP,
    Asks,
    GpuInstruction,
    GpuKernel,
    GpuPlace,
    PlaceLine,
    ThreadRange,
    focus_on,
    is_of_toolkit,
    look_at_places,
    read_line,
    read_register,
    read_shared_word,
)
from kernelkb.profiles.machine_code import disassemble
from kernelkb.sass.function import SassFunction

WaitKind = Literal[
    "mbarrier",
    "registers",
    "cluster",
    "lanes",
    "spin",
    "loop",
    "barrier",
    "converge",
    "runs",
]
_ORDER: tuple[WaitKind, ...] = (
    *("mbarrier", "registers", "cluster", "lanes", "spin"),
    *("loop", "barrier", "converge", "runs"),
)
"""What is told first: a barrier of the block, or a warp that has to meet, waits for the others."""
_WARP = 32
_MAX_SPIN = 4
"""Instructions of a loop that only reads, compares and branches."""
_NEAR, _DEFERRED = 2, 3
"""A barrier of the block blocks some instructions behind it (``DEFER_BLOCKING``)."""
_BRANCH = re.compile(r"\bBRA(?:\.\w+)*\s+(?:!?U?P\d,\s*)?(0x[0-9a-f]+)")
_MBARRIER = re.compile(
    r"\[(U?R\d+|URZ)(?:\+(U?R\d+|URZ))?(?:\+(0x[0-9a-f]+))?\],\s*(U?R\d+|RZ|URZ)"
)
_BARRIER = re.compile(r"BAR\.\S+ (0x[0-9a-f]+)(?:,\s*(0x[0-9a-f]+))?")
_LOAD = re.compile(r"(?:\bPT,\s*)?\b(R\d+),?\s*(?:desc\[UR\d+\])?\[(U?R\d+)")
_COMPARE = re.compile(
    r"ISETP\.(\w\w)(\.U32)?\S* P(\d),\s*PT,\s*(U?R\d+|RZ)(?:\.reuse)?,"
    r"\s*(-?0x[0-9a-f]+|U?R\d+|U?RZ)"
)
_ASKED = re.compile(r"USETMAXREG\S* (?:UP\d,\s*)?(0x[0-9a-f]+)")
_NEGATED = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "LE": "GT", "GT": "LE"}
_WORDS = {"EQ": "", "NE": "not ", "LT": "less than ", "GE": "at least "}
_WORDS |= {"LE": "at most ", "GT": "greater than "}
_FIELD, _TX_FIELD = (1 << 20) - 1, (1 << 21) - 1
_READS = ("LD", "LDG", "LDS", "ATOM", "ATOMG", "ATOMS")
_CHANGES = "until it changes"
_MAX_GROUPS = 8
_MAX_IMAGE_BYTES = 2**23
"""Of larger ones cuda-gdb's own line does: nvdisasm would take seconds."""


class Mbarrier(NamedTuple):
    """The state of an mbarrier."""

    phase: int
    """Parity of the phase that has not ended: 0 or 1."""
    expected: int
    """Arrivals of a phase."""
    lacking: int
    """Of them, those that have not come."""
    lacking_bytes: int
    """Expected by expect_tx and not yet copied; negative: copied before it was called."""


def decode_mbarrier(word: int) -> Mbarrier:
    """Return what the 64 bits of an mbarrier say (seen on sm_90).

    Bit 63 is the phase. The counts are kept negated: arrivals that lack in bits 43 to 62, bytes in
    bits 21 to 41, arrivals of a phase in bits 1 to 20.
    """
    count = -(word >> 21) & _TX_FIELD
    size = count - (_TX_FIELD + 1) if count > _TX_FIELD >> 1 else count
    return Mbarrier(word >> 63, -(word >> 1) & _FIELD, -(word >> 43) & _FIELD, size)


class GpuWait(NamedTuple):
    """What stands at a program counter."""

    kind: WaitKind
    instruction: GpuInstruction
    """The one that waits."""
    body: tuple[GpuInstruction, ...] = ()
    """The loop around it."""


def find_wait(place: GpuPlace, *, whole_warps: bool) -> GpuWait | None:
    """Return what threads at a place wait for; None where no code is known.

    Args:
        place: Where they are.
        whole_warps: Whether all lanes of their warps are there.
    """
    if not place.instructions:
        return None
    now, near = place.instructions[place.at], place.take(-_NEAR, 1)
    body = _find_loop(place)
    for own in (*near, *body):
        if own.operation.startswith("SYNCS.PHASECHK"):
            return GpuWait("mbarrier", own, body)
    for own in place.take(-_NEAR, _NEAR):
        if own.operation.startswith("USETMAXREG.TRY"):
            return GpuWait("registers", own, body)
        if own.operation == "UCGABAR_WAIT" and own in place.take(-1, 0):
            return GpuWait("cluster", own, body)
    held = [one for one in place.take(-_DEFERRED, -1) if one.operation.startswith("BAR.")]
    if held and (whole_warps or not now.operation.startswith("WARPSYNC")):
        return GpuWait("barrier", held[-1], body)
    if now.operation.startswith("WARPSYNC"):
        behind = {one.operation.partition(".")[0] for one in place.take(1, 1)}
        return GpuWait("converge" if behind & {"BAR", "USETMAXREG"} else "lanes", now, body)
    if now.operation.startswith("BSYNC"):
        return GpuWait("converge", now, body)
    return _describe_loop(now, body)


def _find_loop(place: GpuPlace) -> tuple[GpuInstruction, ...]:
    """Return the smallest loop around the next instruction, as far as it was listed."""
    best: tuple[GpuInstruction, ...] = ()
    for end in range(place.at, len(place.instructions)):
        branch = _BRANCH.search(place.instructions[end].text)
        target = int(branch[1], 16) if branch else None
        if target is None or target > place.pc or target == place.instructions[end].address:
            continue
        body = tuple(one for one in place.instructions[: end + 1] if one.address >= target)
        if not best or len(body) < len(best):
            best = body
    return best


def _describe_loop(now: GpuInstruction, body: Sequence[GpuInstruction]) -> GpuWait:
    loads = [one for one in body if one.operation.split(".")[0] in _READS]
    is_strong = any(
        ".STRONG" in one.operation or one.operation.startswith(("ATOM", "NANOSLEEP"))
        for one in body
    )
    if loads and (is_strong or len(body) <= _MAX_SPIN):
        strong = [one for one in loads if ".STRONG" in one.operation or "ATOM" in one.operation]
        return GpuWait("spin", (strong or loads)[0], tuple(body))
    return GpuWait("loop", now, tuple(body)) if body else GpuWait("runs", now)


class WaitingThreads(NamedTuple):
    """Threads of a kernel that wait at one line for one thing."""

    kind: WaitKind
    line: PlaceLine | None
    detail: str
    """What for, as the end of a sentence."""
    ranges: tuple[ThreadRange, ...]


def describe_kernels(debugger: Asks, kernels: Sequence[GpuKernel]) -> list[str]:
    """Return one line for each kernel on the GPU, and one for each group of its threads.

    Args:
        debugger: Attached to the process, or with its core dump.
        kernels: As it lists them.
    """
    places = look_at_places(debugger, kernels)
    lines = []
    for kernel in kernels:
        lines.append(_describe_kernel(kernel))
        groups = _group_threads(debugger, kernel, places)
        lines += [f"  {_describe_group(kernel, group)}" for group in groups[:_MAX_GROUPS]]
        if not any(group.line for group in groups):
            lines.append("  its lines are not known: build it with -lineinfo")
        if ended := _describe_ended(kernel):
            lines.append(f"  {ended}")
    return lines


def _describe_kernel(kernel: GpuKernel) -> str:
    total = kernel.grid[0] * kernel.grid[1] * kernel.grid[2]
    text = f"{kernel.name}<<<{_dim(kernel.grid)}, {_dim(kernel.block)}>>> is on the GPU with "
    on = f"{kernel.resident:,} of {total:,} blocks"
    if kernel.resident > total:  # cuda-gdb 13.0 tells a grid of 1 for a cooperative launch
        on, total = f"{kernel.resident:,} blocks", 0
    if kernel.last_block + 1 < total and kernel.fills_gpu:
        on += f", none behind block {kernel.last_block:,}: the others find no room"
    return text + on


def _dim(size: tuple[int, int, int]) -> str:
    used = [str(one) for one in size]
    while len(used) > 1 and used[-1] == "1":
        used.pop()
    return used[0] if len(used) == 1 else f"({', '.join(used)})"


def _group_threads(
    debugger: Asks, kernel: GpuKernel, places: dict[tuple[int, int], GpuPlace]
) -> list[WaitingThreads]:
    found: dict[tuple[WaitKind, str, str], WaitingThreads] = {}
    code: dict[tuple[str, str], SassFunction | None] = {}
    known: dict[int, tuple[WaitKind, PlaceLine | None, str]] = {}
    for one in kernel.threads:
        place = places.get((kernel.number, one.pc))
        if place is None:
            continue
        if one.pc not in known:
            wait = find_wait(place, whole_warps=one.thread_count % _WARP == 0)
            if wait is None:
                continue
            focus_on(debugger, kernel, one)
            line = _find_line(place, wait.instruction.address, code)
            line = line or read_line(debugger, wait.instruction.address)
            known[one.pc] = wait.kind, line, _describe_wait(debugger, wait, kernel)
        kind, line, detail = known[one.pc]
        key = (kind, line.describe() if line else "", detail)
        ranges = (*found[key].ranges, one) if key in found else (one,)
        found[key] = WaitingThreads(kind, line, detail, ranges)
    return sorted(found.values(), key=lambda own: _ORDER.index(own.kind))


def _find_line(
    place: GpuPlace, address: int, code: dict[tuple[str, str], SassFunction | None]
) -> PlaceLine | None:
    """Return the line of an instruction with the kernel's own line that led there, by nvdisasm.

    cuda-gdb tells the innermost call only, which may lie in a library. None without nvdisasm.
    """
    key = place.image, place.function
    if key not in code:
        code[key] = _disassemble(Path(place.image), place.function)
    function, index = code[key], (address - place.begin) // STEP
    if function is None or index >= len(function.places) or not function.places[index]:
        return None
    chain = [one for one in function.places[index] if not is_of_toolkit(one.file)]
    if not chain:
        return None
    own, caller = chain[0], chain[-1]
    return PlaceLine(own.file, own.line, None if caller == own else (caller.file, caller.line))


def _disassemble(image: Path, function: str) -> SassFunction | None:
    try:
        if image.stat().st_size > _MAX_IMAGE_BYTES:
            return None
        found = disassemble(image.read_bytes(), [function])
    except (OSError, KbError):
        return None
    return found[0] if found else None


def _describe_wait(debugger: Asks, wait: GpuWait, kernel: GpuKernel) -> str:
    """Return what threads wait for; values are those of the one in focus."""
    text = wait.instruction.text
    match wait.kind:
        case "mbarrier":
            return _describe_mbarrier(debugger, text)
        case "registers":
            asked = _ASKED.search(text)
            count = f"{int(asked[1], 16)} registers" if asked else "more registers"
            return f"ask for {count} by setmaxnreg, and the others of the block hold them"
        case "cluster":
            return "wait at the barrier of the cluster for threads of its other blocks"
        case "barrier":
            return _describe_barrier(text)
        case "lanes":
            return "wait for lanes of their warp that are named in a mask and are elsewhere"
        case "converge":
            return "wait for other lanes of their warp"
        case "spin":
            return _describe_spin(debugger, wait, kernel)
        case "loop":
            return "are in a loop that waits for nothing"
        case _:
            return "run"


def _describe_mbarrier(debugger: Asks, text: str) -> str:
    operands = _MBARRIER.search(text)
    base = read_register(debugger, operands[1]) if operands else None
    if operands is None or base is None:
        return "wait for an mbarrier"
    more = read_register(debugger, operands[2]) or 0 if operands[2] else 0
    address = ((base + more) & 0xFFFFFF) + int(operands[3] or "0", 16)
    word = read_shared_word(debugger, address)
    name = f"wait for the mbarrier at shared {address:#x}"
    if word is None:
        return name
    state = decode_mbarrier(word)
    lacks = f"{state.lacking:,} of {state.expected:,} arrivals"
    if not state.lacking:
        lacks = f"no arrival and {state.lacking_bytes:,} bytes of copies"
    elif state.lacking_bytes:
        lacks += f" and {state.lacking_bytes:,} bytes of copies"
    return f"{name}, whose phase {state.phase} lacks {lacks}"


def _describe_barrier(text: str) -> str:
    found = _BARRIER.search(text)
    if found is None:
        return "wait at a barrier of the block"
    number, count = int(found[1], 16), int(found[2], 16) if found[2] else 0
    if number == 0 and not count:
        return "wait at __syncthreads for the other threads of the block"
    return f"wait at named barrier {number} for {count or 'all'} threads"


def _describe_spin(debugger: Asks, wait: GpuWait, kernel: GpuKernel) -> str:
    text, operation = wait.instruction.text, wait.instruction.operation
    space = "shared memory" if operation.startswith(("LDS", "ATOMS")) else "global memory"
    operands = _LOAD.search(text)
    verb = "try to set" if ".CAS" in operation or ".EXCH" in operation else "read"
    if operands is None or not _is_compared_as_read(wait, operands[1]):
        return f"{verb} {space} in a loop {_CHANGES}"
    is_kept = operands[1] != operands[2]
    value = read_register(debugger, operands[1]) if is_kept else None
    bound = _find_bound(debugger, wait.body, operands[1]) if is_kept else None
    until = f"until it is {_WORDS[bound[0]]}{bound[1]:,}" if bound else _CHANGES
    holds = "" if value is None else f"; it holds {_to_signed(value):,}"
    total = kernel.grid[0] * kernel.grid[1] * kernel.grid[2]
    has_all = bound is None or not kernel.resident < bound[1] <= total
    more = "" if has_all or space == "shared memory" else "; so many blocks are not on the GPU"
    return f"{verb} {space} in a loop {until}{holds}{more}"


def _is_compared_as_read(wait: GpuWait, register: str) -> bool:
    """Return whether nothing else is written to the register between its load and its test."""
    written = re.compile(rf"^(?:@!?U?P\d )?\S+ (?:U?P\w+,\s*)*{register}(?:\.\w+)?,")
    others = [one for one in wait.body if one != wait.instruction and written.match(one.text)]
    return not [one for one in others if "SETP" not in one.operation]


def _find_bound(
    debugger: Asks, body: Sequence[GpuInstruction], register: str
) -> tuple[str, int] | None:
    """Return the relation and the value with which the comparison of a loop ends it."""
    found = [own for one in body if (own := _COMPARE.search(one.text)) and own[4] == register]
    if not found or not body:
        return None
    relation, other, predicate = found[-1][1], found[-1][5], f"P{found[-1][3]}"
    back = body[-1].text
    if predicate not in back or relation not in _NEGATED:
        return None
    wanted = relation if f"@!{predicate}" in back else _NEGATED[relation]
    bound = int(other, 16) if "0x" in other else read_register(debugger, other)
    return None if bound is None else (wanted, _to_signed(bound))


def _to_signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _describe_group(kernel: GpuKernel, group: WaitingThreads) -> str:
    where = f" at {group.line.describe()}" if group.line else ""
    first = group.ranges[0]
    seen = f" (as thread {first.first_thread:,} of block {first.first_block:,} sees it)"
    told = f"{_describe_threads(kernel, group.ranges)}{where} {group.detail}"
    return told + seen * (group.kind in ("mbarrier", "spin"))


def _describe_threads(kernel: GpuKernel, ranges: Sequence[ThreadRange]) -> str:
    """Return ``threads 32 to 127 (warps 1 to 3) of each block``."""
    blocks = _split_by_block(kernel, ranges)
    first = min(blocks)
    words = _name_threads(blocks[first])
    if len(blocks) == kernel.resident and all(own == blocks[first] for own in blocks.values()):
        return f"{words} of {'each block' if kernel.resident > 1 else f'block {first:,}'}"
    if len(blocks) == 1:
        return f"{words} of block {first:,}"
    return f"{words} of block {first:,}, and such of {len(blocks) - 1:,} more,"


def _split_by_block(
    kernel: GpuKernel, ranges: Sequence[ThreadRange]
) -> dict[int, list[tuple[int, int]]]:
    """Return the threads of each block as intervals in order, joined where they touch."""
    size = kernel.block[0] * kernel.block[1] * kernel.block[2]
    blocks: dict[int, list[tuple[int, int]]] = {}
    for one in ranges:
        for block in range(one.first_block, one.last_block + 1):
            first = one.first_thread if block == one.first_block else 0
            last = one.last_thread if block == one.last_block else size - 1
            blocks.setdefault(block, []).append((first, last))
    return {block: _join(own) for block, own in blocks.items()}


def _join(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined


def _name_threads(intervals: Sequence[tuple[int, int]]) -> str:
    first, last = intervals[0][0], intervals[-1][1]
    if first == last:
        return f"thread {first:,}"
    spans = ", ".join(f"{a:,} to {b:,}" if a != b else f"{a:,}" for a, b in intervals[:3])
    more = f" and {len(intervals) - 3} more spans" if len(intervals) > 3 else ""
    warps = sorted({warp for a, b in intervals for warp in range(a // _WARP, b // _WARP + 1)})
    if len(intervals) > 1 or first % _WARP or (last + 1) % _WARP:
        return f"threads {spans}{more}"
    names = f"warp {warps[0]}" if len(warps) == 1 else f"warps {warps[0]} to {warps[-1]}"
    return f"threads {spans} ({names})"


def _describe_ended(kernel: GpuKernel) -> str | None:
    """Return which threads of the blocks on the GPU have ended; None where none has."""
    size = kernel.block[0] * kernel.block[1] * kernel.block[2]
    blocks = _split_by_block(kernel, kernel.threads)
    ended = {block: own for block in blocks if (own := list(_complement(blocks[block], size)))}
    if not ended:
        return None
    first = min(ended)
    alike = len(ended) == kernel.resident and all(own == ended[first] for own in ended.values())
    of = f"block {first:,}"
    if alike and kernel.resident > 1:
        of = "each block"
    elif len(ended) > 1:
        of += f", and such of {len(ended) - 1:,} more,"
    return f"{_name_threads(ended[first])} of {of} ended before"


def _complement(intervals: Sequence[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    at = 0
    for first, last in intervals:
        if first > at:
            yield at, first - 1
        at = last + 1
    if at < size:
        yield at, size - 1
