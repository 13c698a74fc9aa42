"""Mutation operators for C++ and CUDA sources: regular expressions over the text of a kernel."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

from benchmarks.mutants.c_source import CSource
from benchmarks.mutants.mutant import Edit, Kind

_LOOP = re.compile(r"for \(([^;]*); (\w[\w + ]*) (<=|<|>) ([^;]+); ([^)]*)\) \{")
_DECLARATION = re.compile(
    r"(?m)^ +(float|double|std::int64_t|std::int32_t) (\w+)((?:\[\w+\])*) = ([^;]+);$"
)
_STORE = re.compile(r"(?m)^ *(\w+(?:\[[^\[\]]*\])?\[(?:[^\[\]]|\[[^\[\]]*\])*\]) = ([^;=]+);$")
_STATEMENT = re.compile(
    r"(?m)^ *(?!const|return|float|double|std::)[\w\[\] +*./-]+ [+*-]?= [^;]+;$"
)
_GUARD = re.compile(r"(?m)^ *if \(.+\) (?:continue|break|return[^;]*|[\w\[\]]+ \+?= [^;]+);$")
_UPDATE = re.compile(r"(?m)^ *([\w.]+(?:\[[^\[\]]*(?:\[[^\[\]]*\])?[^\[\]]*\])*) \+= ([^;]+);$")
_INDEX = re.compile(r"\[([^\[\]]*\w[^\[\]]*)\]")
_IDENTIFIER = re.compile(r"(?<![\w.:])[a-z_]\w*(?:\.[xyz])?(?![\w:(<])")
_PARENTHESES = r"\((?:[^()]|\([^()]*\))*\)"
_BRACKETS = r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]"
_PRIMARY = rf"(?:[\w:.]+(?:{_PARENTHESES})?(?:{_BRACKETS})?|{_PARENTHESES})"
_BINARY = re.compile(rf"({_PRIMARY}) ([-+*/]) (?={_PRIMARY})")
_NUMBER = re.compile(r"(?<![\w.])(\d+\.\d*(?:e-?\d+)?f?|\d+e-?\d+f?|\d+)(?![\w.])")
_COMPARISON = re.compile(r" (<|<=|>|>=|==|!=) (?=[\w-])")
_OTHER_COMPARISONS = {
    "<": (">", "<="), "<=": ("<", ">"), ">": ("<", ">="), ">=": (">", "<"),
    "==": ("!=", ">="), "!=": ("==",),
}  # fmt: skip
_OTHER_OPERATORS = {"+": ("-",), "-": ("+",), "*": ("+", "/"), "/": ("*",)}
_OTHER_CALLS = {
    "std::max(": "std::min(", "std::min(": "std::max(", "std::exp(": "std::exp2(",
    "std::sqrt(": "std::cbrt(", "std::log(": "std::log1p(", "std::erf(": "std::tanh(",
    "fmaxf(": "fminf(", "expf(": "exp2f(", "rsqrtf(": "rcbrtf(", "logf(": "log1pf(",
    "erff(": "tanhf(", "_xor_sync(": "_up_sync(", "_down_sync(": "_up_sync(",
}  # fmt: skip


def find_edits(source: CSource) -> Iterator[Edit]:
    """Yield every edit of every operator, in the order of operators and positions."""
    for operator in _OPERATORS:
        yield from operator(source)


def _edit_loops(source: CSource) -> Iterator[Edit]:
    for match in _LOOP.finditer(source.text):
        bound, (start, end) = match[4], match.span(4)
        yield Edit("off-by-one bounds", "bound-less", start, end, f"({bound}) - 1")
        yield Edit("off-by-one bounds", "bound-more", start, end, f"({bound}) + 1")
        if "=" in match[1]:
            at = match.end(1)
            yield Edit("off-by-one bounds", "start-later", at, at, " + 1")
        yield Edit("off-by-one bounds", "step", *match.span(5), _double_step(match[5]))
        if match[3] == "<":
            for size in (4, 8, 32):
                whole = f"({bound}) / {size} * {size}"
                yield Edit("dropped tail", f"tail-{size}", start, end, whole)
        if not match[1]:
            yield Edit("dropped tail", "no-remainder", start, end, "0")


def _double_step(step: str) -> str:
    if step.startswith("++"):
        return f"{step[2:]} += 2"
    return step.replace("+=", "+= 1 +") if "+=" in step else step.replace("/= 2", "/= 4")


def _edit_indices(source: CSource) -> Iterator[Edit]:
    for match in _INDEX.finditer(source.text):
        if source.is_skipped(*match.span()) or not re.search("[a-z]", match[1]):
            continue
        index, (start, end) = match[1], match.span(1)
        yield Edit("off-by-one bounds", "index-more", start, end, f"{index} + 1")
        yield Edit("off-by-one bounds", "index-less", start, end, f"{index} - 1")
        places = list(_IDENTIFIER.finditer(index))
        for left, right in itertools.combinations(places, 2):
            if left[0] != right[0]:
                swapped = index[: left.start()] + right[0] + index[left.end() : right.start()]
                swapped += left[0] + index[right.end() :]
                yield Edit("swapped indices", "swap", start, end, swapped)
        for place in places:
            for other in source.loop_variables(start)[-3:]:
                if other not in index:
                    replaced = index[: place.start()] + other + index[place.end() :]
                    yield Edit("swapped indices", "other-variable", start, end, replaced)


def _edit_synchronisation(source: CSource) -> Iterator[Edit]:
    for match in re.finditer(r"__syncthreads\(\);", source.text):
        yield Edit("missing sync", "no-barrier", *match.span(), "")
    for match in re.finditer(r"atomicAdd\(&([^,]+), ([^)]+)\)", source.text):
        yield Edit("missing sync", "no-atomic", *match.span(), f"{match[1]} += {match[2]}")


def _edit_declarations(source: CSource) -> Iterator[Edit]:
    for match in _DECLARATION.finditer(source.text):
        kind_at = match.start(1)
        is_loop_index = re.search(rf"for \([^;]*; {match[2]} ", source.text) is not None
        if source.is_cuda:
            yield Edit("missing initialisation", "garbage", *match.span(4), "12345")
        else:
            yield Edit("stale scratch", "static", kind_at, kind_at, "static ")
            end = match.end(4)
            yield Edit("missing initialisation", "no-value", match.start(4) - 3, end, "")
        for other in _narrower(match[1], source.is_cuda):
            if not is_loop_index:
                yield Edit("wrong dtype or accumulator", "type", *match.span(1), other)
    for match in re.finditer(r"(?m)^ +const (float|double|std::int64_t) \w+ = ", source.text):
        for other in _narrower(match[1], source.is_cuda):
            yield Edit("wrong dtype or accumulator", "type", *match.span(1), other)
    for match in re.finditer(r"std::vector<float> \w+", source.text):
        yield Edit("stale scratch", "static", match.start(), match.start(), "static ")


def _narrower(dtype: str, is_cuda: bool) -> tuple[str, ...]:
    if dtype == "double":
        return ("float",)
    if dtype == "float":
        return ("int",) if is_cuda else ("_Float16", "int")
    return ("std::int8_t",)


def _edit_updates(source: CSource) -> Iterator[Edit]:
    for match in _UPDATE.finditer(source.text):
        target, value, start = match[1], match[2], match.start(1)
        end = match.end() - 1
        if source.is_skipped(start, end):
            continue
        for rounding in ("to_half", "to_bfloat16"):
            narrow = f"{target} = {rounding}({target} + ({value}))"
            yield Edit("wrong dtype or accumulator", rounding, start, end, narrow)
        yield Edit("dropped term", "not-added", start, end, f"{target} = {value}")
        yield Edit("wrong operator", "subtracted", start, end, f"{target} -= {value}")


def _edit_stores(source: CSource) -> Iterator[Edit]:
    for match in _STORE.finditer(source.text):
        value, (start, end) = match[2], match.span(2)
        index = match[1].rpartition("[")[2][:-1] if match[1].count("[") == 1 else "0"
        if source.is_skipped(match.start(1), end):
            continue
        for rounding in ("to_half", "to_bfloat16"):
            yield Edit(
                "wrong dtype or accumulator",
                f"store-{rounding}",
                start,
                end,
                f"{rounding}({value})",
            )
        for name in ("without_nan", "finite", "clipped", "flushed"):
            yield Edit("wrong for NaN, ties or extremes", name, start, end, f"{name}({value})")
        if index == "0":
            continue
        lanes = ((f"({index}) % 32 == 31", "0"), (f"({index}) % 7 == 3", f"2 * ({value})"),
                 (f"({index}) == 1", f"-({value})"),
                 (f"({index}) % 16 == 0", f"1.01f * ({value})"))  # fmt: skip
        for number, (lane, wrong) in enumerate(lanes):
            yield Edit(
                "one wrong lane", f"lane-{number}", start, end, f"{lane} ? {wrong} : ({value})"
            )
        known = [
            axis for axis in source.axes if re.search(rf"\b{axis}\b", source.header_before(start))
        ]
        for axis in known:
            conditions = [
                "% 2 == 1",
                "% 8 == 7",
                "> 32",
                "< 3",
                *(["== 64"] if axis == known[-1] else []),
            ]
            for condition in conditions:
                name = f"size {condition}"
                yield Edit(
                    "wrong for one size", name, start, end, f"{axis} {condition} ? 0 : ({value})"
                )


def _edit_axes(source: CSource) -> Iterator[Edit]:
    for axis, size in source.axes.items():
        for match in re.finditer(rf"\b{axis}\b", source.text):
            if source.is_skipped(*match.span()):
                continue
            yield Edit("constant instead of axis", "constant", *match.span(), str(size))
            for other in source.axes:
                if other != axis:
                    yield Edit("swapped indices", "other-axis", *match.span(), other)


def _edit_terms(source: CSource) -> Iterator[Edit]:
    for match in _BINARY.finditer(source.text):
        if source.is_skipped(match.start(2), match.end(2)):
            continue
        right = re.compile(_PRIMARY).match(source.text, match.end())
        if right is not None:
            yield Edit("dropped term", "right", match.start(2) - 1, right.end(), "")
        yield Edit("dropped term", "left", match.start(1), match.end(), "")
        for other in _OTHER_OPERATORS[match[2]]:
            yield Edit("wrong operator", "arithmetic", *match.span(2), other)
    for match in _STATEMENT.finditer(source.text):
        if not source.is_skipped(*match.span()):
            yield Edit("dropped term", "statement", *match.span(), "")
    for name, other in _OTHER_CALLS.items():
        for match in re.finditer(re.escape(name), source.text):
            yield Edit("wrong operator", "call", *match.span(), other)
    for match in re.finditer(r"__shfl_\w+\(\w+, (\w+), \w+\)", source.text):
        yield Edit("dropped term", "shuffle", *match.span(), match[1])


def _edit_numbers(source: CSource) -> Iterator[Edit]:
    for match in _NUMBER.finditer(source.text):
        if source.is_skipped(*match.span()):
            continue
        number = match[0]
        if number.isdigit():
            values = {str(int(number) + 1), str(max(0, int(number) - 1)), "0"} - {number}
        elif float(number.rstrip("f")):
            values = {f"{number} * 1.01f", f"{number} * 2.0f", "0.0f", f"-{number}"}
        else:
            values = {"1.0f", "1e-3f", "-1.0f"}
        for value in sorted(values):
            yield Edit("wrong constant", "literal", *match.span(), value)
    for match in re.finditer(r"-INFINITY", source.text):
        for value in ("0.0f", "-1.0f", "-50.0f"):
            yield Edit("wrong constant", "infinity", *match.span(), value)


def _edit_conditions(source: CSource) -> Iterator[Edit]:
    for match in _COMPARISON.finditer(source.text):
        if source.is_skipped(*match.span(1)):
            continue
        for other in _OTHER_COMPARISONS[match[1]]:
            kind: Kind = "wrong comparison"
            if source.is_in_loop(match.start()):
                kind = "off-by-one bounds"
            elif {match[1], other} in ({">", ">="}, {"<", "<="}):
                kind = "wrong for NaN, ties or extremes"
            yield Edit(kind, "comparison", *match.span(1), other)
    for old, new in (("&&", "||"), ("||", "&&")):
        for match in re.finditer(re.escape(old), source.text):
            yield Edit("wrong comparison", "logic", *match.span(), new)
    for match in re.finditer(r"!?(?:std::)?isnan\(\w+(?:\[[^\]]*\])?\)", source.text):
        for value in ("false", "true"):
            yield Edit("wrong for NaN, ties or extremes", "isnan", *match.span(), value)
    for match in re.finditer(r"\? ([^:;?]+) : ([^;:?]+);", source.text):
        yield Edit("wrong comparison", "branches", *match.span(), f"? {match[2]} : {match[1]};")
    for match in _GUARD.finditer(source.text):
        yield Edit("dropped term", "guard", *match.span(), "")


def _edit_exits(source: CSource) -> Iterator[Edit]:
    for match in _LOOP.finditer(source.text):
        name = re.split(r"\W", match[2])[0]
        for code in (f" if ({name} % 5 == 4) continue;", f" if ({name} > 8) break;",
                     f" if ({name} == 3) break;"):  # fmt: skip
            yield Edit("early return", "leave-loop", match.end(), match.end(), code)
    for match in re.finditer(r"(?m)^(extern \"C\" int|__global__ void)[^{;]*\{", source.text):
        value = "" if "void" in match[1] else " 0"
        yield Edit("early return", "at-once", match.end(), match.end(), f" return{value};")
        if not value:
            lane = " if (threadIdx.x == 5) return;"
            yield Edit("early return", "one-thread", match.end(), match.end(), lane)
    for old, new in (("continue;", "break;"), ("break;", "continue;")):
        for match in re.finditer(rf"\) {old}", source.text):
            yield Edit("early return", "jump", *match.span(), f") {new}")


_OPERATORS: tuple[Callable[[CSource], Iterator[Edit]], ...] = (
    _edit_loops,
    _edit_indices,
    _edit_synchronisation,
    _edit_declarations,
    _edit_updates,
    _edit_stores,
    _edit_axes,
    _edit_terms,
    _edit_numbers,
    _edit_conditions,
    _edit_exits,
)
