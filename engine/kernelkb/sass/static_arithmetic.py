"""Finds arithmetic that costs more than its source line shows, and the units that do it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from kernelkb.model.answers.static_facts import StaticFact, StaticKind
from kernelkb.sass.function import Instruction, Place
from kernelkb.sass.static_dataflow import Code, find_place, make_fact, make_mask

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
