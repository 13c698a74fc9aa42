"""Finds instructions that cost more than they need: arithmetic, and accesses of memory."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from kernelkb.model.answers.source_place import StaticFact, StaticKind
from kernelkb.sass.function import Instruction, Place, list_address_registers
from kernelkb.sass.static_dataflow import (
    MAX_TRACED,
    Code,
    Edges,
    find_place,
    list_looped_sums,
    make_fact,
    make_mask,
)

_LONG_DIVISION = re.compile(r"__cuda_sm\d+_(div|rem)_[su]64")
_EXACT = (
    ("fp32 division", re.compile(r"__cuda_sm\w+_(div_rn_(no)?ftz_f32|rcp_rn_(ftz_)?f32)")),
    ("fp32 square root", re.compile(r"__cuda_sm\w+_sqrt_rn_(ftz_)?f32")),
    ("fp64 division", re.compile(r"__cuda_sm\w+_(div_rn_f64|dblrcp|rcp_rn_f64)")),
    ("fp64 square root", re.compile(r"__cuda_sm\w+_d?sqrt_rn_f64")),
)
_DOUBLE = frozenset({"DADD", "DMUL", "DFMA", "DSETP", "DMNMX"})
_PRODUCTS = {"FMUL": "FADD", "DMUL": "DADD", "HMUL2": "HADD2"}
_MATRIX = re.compile(r"(UTC)?[A-Z]{0,2}MMA")
_SHAPE = re.compile(r"\d+(x\d+)*")
_UNIFORM = re.compile(r"U(?!TMA|TC|BLK|CGABAR|SETMAXREG)[A-Z0-9]+|S2UR|R2UR|LDCU|VOTEU|REDUX")
_FLOW = frozenset({"BRA", "EXIT", "RET", "JMP", "BRX", "CALL", "BREAK", "BSYNC"})
_MIN_DOUBLE = 3
"""Fewer cost little outside of a loop."""

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

_BULK_COPIES = frozenset({"UBLKCP", "UTMALDG"})
_SHARED_LOADS = frozenset({"LDS", "LDSM"})
_REMOTE_LOADS = frozenset({"LDG", "LD"})
GROUP_MATRIX = re.compile(r"[HIQBO]GMMA|UTC\w*MMA\w*")
"""Matrix instructions of a warpgroup and more, which take operands from shared memory."""
_CONVERSIONS = frozenset(
    {"MOV", "IMAD.MOV", "SEL", "FSEL", "PRMT", "I2F", "I2FP", "F2F", "F2FP", "HADD2.F32"}
)
"""Between a load and the store of a staged value; arithmetic makes another value of it."""
_WIDENINGS = _CONVERSIONS | {"IMAD.U32", "IMAD.SHL", "SHL", "SHF", "LOP3", "F2F", "HADD2"}
"""Between a load and a product: what makes an operand of 8 or 16 bits one of 32, bfloat16 too."""
_PRODUCT = re.compile(r"\b(?:FFMA|HFMA2)\S* R\d+, -?(R\d+)\S*, -?(R\d+)\S*, -?(?:R\d+|RZ)\S*$")
_MAX_CONVERSIONS = 4
_REUSED_RATIO = 1.5
"""Bytes that are read for each byte that is staged, where no loop repeats the reads. A stencil of
three points reads 3, a transpose 1; judgement."""

_INTEGERS = frozenset(
    {"IMAD", "IADD3", "IADD", "VIADD", "LEA", "LOP3", "LOP", "SHF", "SHL", "SHR", "ISETP", "POPC",
     "FLO", "BREV", "PRMT", "IDP", "IABS", "SEL", "IMNMX", "VIMNMX", "VIMNMX3", "VIADDMNMX", "SGXT",
     "BMSK"}
)  # fmt: skip
"""Operations on integers of each lane, without moves and those of the uniform datapath."""
_ATOMICS = frozenset({"ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS"})
_KEEPERS = _ATOMICS | {"ST", "STG", "STS"}
"""Operations whose data operands are results; what lies in local memory comes back."""
_LOADERS = frozenset(
    {"LD", "LDG", "LDS", "LDSM", "LDC", "LDCU", "TEX", "TLD", "ATOM", "ATOMG", "ATOMS"}
)
_COPIERS = frozenset({"LDGSTS", "LDL", "STL", "UBLKCP", "UTMALDG", "UTMASTG"})
_LOOP_WEIGHT, _MAX_WEIGHTED_DEPTH = 10.0, 6
"""A loop is taken to run ten times, as compilers do that know no more."""
_SINGLE_BIT = re.compile(r"SHF\.[LR]\.[US]32(\.HI)? R\d+, (RZ, 0x1, R\d+|R\d+, 0x1, RZ)\b")
_BIT_MASKS = re.compile(r"0x(5{8}|3{8}|f?(0f){3,4}|a{8}|c{8})\b")
"""Every other bit, pair and group of four, as sums of bits and reversals in steps take them."""


def find_integer_divisions(code: Code) -> Iterator[StaticFact]:
    """Yield divisions by numbers that the compiler does not know; a constant takes a product.

    A 32-bit division has no instruction: a reciprocal in fp32 (``I2F.RP``, ``MUFU.RCP``) is
    corrected by products. Where the divisor stays the same, only the products are in the loop.
    """
    calls = [i for i in code.own if _LONG_DIVISION.search(code.function.instructions[i].text)]
    long_places = {find_place(code.function, index) for index in calls} - {None}
    reciprocals = [i for i in code.own if _is_reciprocal(code.function.instructions[i])]
    short = [i for i in reciprocals if find_place(code.function, i) not in long_places]
    if short:
        places = {find_place(code.function, index) for index in short}
        corrections = [
            index
            for index in code.own
            if index in code.depths
            and _is_high_product(code.function.instructions[index])
            and find_place(code.function, index) in places
        ]
        words = "division or remainder of 32-bit integers by a number that is not a constant"
        if corrections and not any(index in code.depths for index in short):
            words += "; its reciprocal is taken before the loop"
        yield make_fact(
            code, "integer-division", words, [*short, *corrections], amount=len(short), notable=True
        )
    if calls:
        words = "division or remainder of 64-bit integers, a subroutine of about 70 instructions"
        yield make_fact(code, "integer-division", words, calls, notable=True)


def _is_reciprocal(one: Instruction) -> bool:
    return one.opcode in ("I2F", "UI2F", "I2FP") and "RP" in one.modifiers


def _is_high_product(one: Instruction) -> bool:
    return one.opcode in ("IMAD", "UIMAD") and "HI" in one.modifiers


def find_exact_functions(code: Code) -> Iterator[StaticFact]:
    """Yield divisions and square roots rounded exactly, with a subroutine for rare operands."""
    for name, pattern in _EXACT:
        found = [i for i in code.own if pattern.search(code.function.instructions[i].text)]
        if found:
            words = f"exact {name}, with a subroutine for rare operands"
            inner = [index for index in found if index in code.depths]
            notable = bool(inner) or not code.loops
            chosen = inner if notable and inner else found
            yield make_fact(code, "precise-division", words, chosen, notable=notable)


def find_doubles(code: Code) -> Iterator[StaticFact]:
    """Yield arithmetic in double precision."""
    found = [index for index in code.own if _is_double(code.function.instructions[index])]
    if found:
        kinds = Counter(code.function.instructions[index].opcode for index in found)
        notable = len(found) >= _MIN_DOUBLE or any(index in code.depths for index in found)
        words = f"arithmetic in fp64: {_format_counts(kinds)}"
        yield make_fact(code, "fp64", words, found, notable=notable)


def _is_double(one: Instruction) -> bool:
    return one.opcode in _DOUBLE or (one.opcode == "MUFU" and one.modifiers[0].endswith("64H"))


def find_uncontracted(code: Code) -> Iterator[StaticFact]:
    """Yield products whose only use is a sum: the compiler was told not to contract them."""
    found: dict[str, list[int]] = defaultdict(list)
    products: dict[str, int] = {}
    targets = code.targets
    for index in code.own:
        one = code.function.instructions[index]
        if index in targets:
            products = {}
        for register in sorted(one.reads & products.keys()):
            product = code.function.instructions[products.pop(register)]
            is_sum = _PRODUCTS[product.opcode] == one.opcode and "FTZ" not in one.modifiers
            if is_sum and _is_dead_after(code, index, register):
                found[product.opcode].append(index)
        for register in one.writes:
            products.pop(register, None)
        if one.opcode in _PRODUCTS and not one.is_conditional:
            products |= {name: index for name in one.writes if name[0] == "R"}
    for opcode, indices in sorted(found.items()):
        words = f"{opcode} and {_PRODUCTS[opcode]} not contracted to one instruction"
        yield make_fact(code, "not-contracted", words, indices, notable=True)


def _is_dead_after(code: Code, index: int, register: str) -> bool:
    if register in code.function.instructions[index].writes:
        return True
    return not any(code.live[at] & make_mask({register}) for at in code.function.successors[index])


def find_matrix_products(code: Code) -> Iterator[StaticFact]:
    """Yield the matrix instructions of the tensor cores, by operation and shape."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index in code.own:
        one = code.function.instructions[index]
        if _MATRIX.fullmatch(one.opcode):
            groups[_name_matrix_product(one)].append(index)
    for name, found in sorted(groups.items()):
        inner = [index for index in found if index in code.main]
        words = f"{name} on the tensor cores"
        words += f", {len(inner)} times in the innermost loop" if inner else ""
        yield make_fact(code, "tensor", words, inner or found, notable=True)


def _name_matrix_product(one: Instruction) -> str:
    shape = next((at for at, m in enumerate(one.modifiers) if _SHAPE.fullmatch(m)), None)
    types = [m for m in one.modifiers if re.fullmatch(r"[BET]?F\d+\w*|[SU]\d+|E\dM\d", m)]
    return ".".join((one.opcode, *([] if shape is None else [one.modifiers[shape]]), *types))


def find_serialised_groups(code: Code) -> Iterator[StaticFact]:
    """Yield wgmma instructions of a loop that are each waited for before the next one starts."""
    for loop in code.loops:
        order = [
            code.function.instructions[index]
            for index in sorted(loop.body)
            if loop.is_main and code.function.instructions[index].opcode in ("HGMMA", "WARPGROUP")
        ]
        events = ["wait" if "DEPBAR" in one.modifiers else one.opcode for one in order]
        events = [event for event in events if event != "WARPGROUP"]
        count = events.count("HGMMA")
        waits = sum(pair == ("HGMMA", "wait") for pair in pairwise(events))
        lines = {find_place(code.function, i) for i in _list_waits(code, loop.body)}
        if count > 1 and waits == count and len(lines) < count:
            words = "each wgmma is waited for before the next starts"
            found = [i for i in loop.body if code.function.instructions[i].opcode == "HGMMA"]
            yield make_fact(code, "wgmma-serialised", words, found, notable=True)


def _list_waits(code: Code, body: frozenset[int]) -> list[int]:
    return [i for i in body if "DEPBAR" in code.function.instructions[i].modifiers]


def find_unrolling(code: Code) -> Iterator[StaticFact]:
    """Yield the loops whose body holds the memory and arithmetic instructions of a line often."""
    for loop in code.loops:
        if not loop.is_main:
            continue
        counts: dict[tuple[Place | None, str], list[int]] = defaultdict(list)
        for index in loop.body:
            one = code.function.instructions[index]
            if one.opcode in ("LDG", "LDS", "STG", "STS", "FFMA", "FADD", "FMUL", "DFMA", "HFMA2"):
                counts[find_place(code.function, index), one.operation].append(index)
        repeated = [found for (place, _), found in counts.items() if place and len(found) > 1]
        if repeated:
            most = max(repeated, key=len)
            name = code.function.instructions[most[0]].operation
            words = f"{name} is repeated {len(most)} times in the body of its loop"
            yield make_fact(code, "unrolled", words, most)


def find_shares(code: Code) -> Iterator[StaticFact]:
    """Yield how much runs under a predicate and on the uniform datapath."""
    chosen = [index for index in code.own if index in code.main] or code.own
    instructions = {index: code.function.instructions[index] for index in chosen}
    where = "of the innermost loops" if chosen is not code.own else "of the instructions"
    guarded = [
        i for i, one in instructions.items() if one.is_conditional and one.opcode not in _FLOW
    ]
    uniform = [i for i, one in instructions.items() if _UNIFORM.fullmatch(one.opcode)]
    shares: list[tuple[StaticKind, list[int], str]] = [
        ("predication", guarded, "has a predicate"),
        ("uniform-datapath", uniform, "runs once a warp, on the uniform datapath"),
    ]
    for kind, found, what in shares:
        if found:
            share = len(found) / len(chosen)
            yield make_fact(code, kind, f"{share:.0%} {where} {what}", found, amount=share)


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


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


def measure_narrow_products(code: Code) -> float | None:
    """Return the share of the multiply-adds whose two factors are loaded values of 8 or 16 bits.

    Of those in loops, where there are any. A coefficient of a stencil or of a polynomial is a
    constant or computed; packed halves need no widening. None: the code does not tell.
    """
    if code.dependences is None:
        return None
    instructions = code.function.instructions
    found = [at for at in code.own if _is_multiply_add(instructions[at])]
    looped = [at for at in found if at in code.depths] or found
    narrow = sum(_multiplies_narrow_values(code, at) for at in looped)
    return narrow / len(looped) if looped else 0.0


def _multiplies_narrow_values(code: Code, at: int) -> bool:
    one = code.function.instructions[at]
    match = _PRODUCT.search(one.text)
    if match is None:
        return False
    left, right = match.groups()
    packed = one.opcode == "HFMA2"
    both = [_is_narrow_load(code, at, name, packed=packed) for name in (left, right)]
    return all(both) and left != right


def _is_multiply_add(one: Instruction) -> bool:
    """Whether it multiplies: compilers clear registers by ``HFMA2.MMA R2, -RZ, RZ, 0, 0``."""
    return one.opcode in ("FFMA", "HFMA2") and "-RZ, RZ" not in one.text


def _is_narrow_load(code: Code, user: int, register: str, *, packed: bool) -> bool:
    """Return whether a register holds a loaded value, which was widened unless it is packed."""
    dependences, instructions = code.dependences, code.function.instructions
    if dependences is None:
        return False
    within = dependences.within
    reached = {at for at in within.get(user, ()) if register in instructions[at].writes}
    for passed in range(_MAX_CONVERSIONS + 1):
        loads = {at for at in reached if instructions[at].opcode in _REMOTE_LOADS | _SHARED_LOADS}
        if loads:
            return packed or passed > 0
        widened = {at for at in reached if _is_widening(instructions[at])}
        reached = {source for at in widened for source in within.get(at, ())}
    return False


def _is_widening(one: Instruction) -> bool:
    return any(".".join((one.opcode, *one.modifiers[:n])) in _WIDENINGS for n in (0, 1))


def measure_integers(codes: Iterable[Code]) -> dict[str, float]:
    """Return what integers and sums of lanes are for; empty where some code cannot be traced."""
    total = 0.0
    found: dict[str, float] = defaultdict(float)
    for code in codes:
        if code.producers is None:
            return {}
        weights = {at: _weigh(code, at) for at in code.own}
        total += sum(weights.values())
        groups = {
            "data_integer_share": (data := _list_data_integers(code, code.producers)),
            "single_bit_step_share": _list_matching(code, data, _SINGLE_BIT),
            "bit_mask_share": _list_matching(code, data, _BIT_MASKS),
            "looped_sum_share": list_looped_sums(code),
        }
        for name, chosen in groups.items():
            found[name] += sum(weights[at] for at in chosen)
    return {name: value / total for name, value in found.items()} if total else {}


def _weigh(code: Code, at: int) -> float:
    """Return how often an instruction may run, from the loops around it alone."""
    return float(_LOOP_WEIGHT ** min(code.depths.get(at, 0), _MAX_WEIGHTED_DEPTH))


def _list_matching(code: Code, chosen: Iterable[int], pattern: re.Pattern[str]) -> list[int]:
    return [at for at in chosen if pattern.search(code.function.instructions[at].text)]


def _list_data_integers(code: Code, producers: Edges) -> list[int]:
    """Return the integer operations that feed what is stored, and no address or guard of memory.

    What a load returns was computed elsewhere: it ends the way back.
    """
    instructions = code.function.instructions
    addresses: set[int] = set()
    data: set[int] = set()
    for at in code.own:
        one = instructions[at]
        if one.opcode not in _KEEPERS | _LOADERS | _COPIERS:
            continue
        registers = list_address_registers(one)
        for source in producers.get(at, ()):
            if instructions[source].writes & registers:
                addresses.add(source)
            elif one.opcode in _KEEPERS:
                data.add(source)
    only_data = _go_back(code, producers, data) - _go_back(code, producers, addresses)
    return [at for at in sorted(only_data) if _is_integer(instructions[at])]


def _go_back(code: Code, producers: Edges, ends: Iterable[int]) -> set[int]:
    seen: set[int] = set()
    pending = list(ends)
    while pending:
        at = pending.pop()
        if at not in seen:
            seen.add(at)
            if code.function.instructions[at].opcode not in _LOADERS:
                pending += producers.get(at, ())
    return seen


def _is_integer(one: Instruction) -> bool:
    return one.opcode in _INTEGERS and "MOV" not in one.modifiers
