"""What an array holds before a call: one value that its host sets it to, or what is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kernelkb.scaffold.answers import to_fill
from kernelkb.scaffold.cpp.functions import SourceFacts
from kernelkb.scaffold.cpp.syntax import Declaration, get_text, iter_calls, strip_casts
from kernelkb.scaffold.draft import Function, Parameter

_OF_BYTES = ("cudaMemset", "cudaMemsetAsync")
_COPIES = ("cudaMemcpy", "cudaMemcpyAsync")
_FILLS = re.compile(r"(?:(?:thrust|std)::)?(?:uninitialized_)?fill(?:_n)?")
_NO_CHANGE = re.compile(
    r"cuda(?:Malloc|Free|Memset|Memcpy)\w*|cudaDeviceSynchronize|sizeof|.*device_ptr"
    r"|.*pointer_cast|\w*(?:[cC]heck|CHECK)\w*"
)


class _Settings(NamedTuple):
    """What a host does to the memory that it passes to a kernel."""

    values: Mapping[str, str] = {}
    """By what fills it with one value: that value."""
    others: tuple[str, ...] = ()
    """Calls that fill it with something else, or hand it on."""


def fill_starts(function: Function, facts: SourceFacts) -> Function:
    """Return a function whose arrays that its host sets to one value have it, or are asked for it.

    The calls of the function in its file show what is passed.
    """
    callers = [*_iter_callers(function, facts)]
    if not callers:
        return function
    host, arguments = callers[0]
    passed = dict(zip([p.name for p in function.parameters], arguments, strict=False))
    parameters = []
    for each in function.parameters:
        text = _find_memory(passed.get(each.name, ""))
        if each.role in ("input", "output") and text.isidentifier() and not each.points_into:
            each = _set_start(each, _read_settings(text, host, function, facts))
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _iter_callers(
    function: Function, facts: SourceFacts
) -> Iterator[tuple[Declaration, Sequence[str]]]:
    """Yield the functions that launch or call a function, with the arguments."""
    if function.is_kernel:
        sites = [site for site in facts.sites if site.kernel == function.name]
        yield from ((site.host, site.arguments) for site in sites)
        return
    for each in facts.declarations:
        for name, arguments in iter_calls(each.body):
            if name == function.name:
                yield each, arguments


def _find_memory(argument: str) -> str:
    """Return the variable that an argument points into: also ``raw_pointer_cast(x.data())``."""
    text = strip_casts(argument)
    held = re.fullmatch(r"(?:thrust::)?raw_pointer_cast\s*\(\s*(.*)\)", text)
    return re.sub(
        r"(?:\.data\(\)|\.begin\(\)|\[0\]|\.get\(\))+$", "", strip_casts(held[1] if held else text)
    )


def _read_settings(
    name: str, host: Declaration, function: Function, facts: SourceFacts
) -> _Settings:
    values, others = dict[str, str](), dict[str, None]()
    made = _find_value(name, host) if "device_vector" in get_text(host.body) else None
    values |= {made[0]: made[1]} if made else {}
    for called, arguments in iter_calls(host.body):
        texts = [_find_memory(each) for each in arguments]
        shown = f"{called}({', '.join(arguments)})"
        if called in _OF_BYTES and texts[:1] == [name] and len(texts) > 1:
            bare = to_fill(texts[1])
            values |= {shown: texts[1]} if bare == "zeros" else {}
            others |= {} if bare == "zeros" else {shown: None}
        elif called in _COPIES and texts[:1] == [name] and len(texts) > 1:
            found = _find_value(texts[1], host)
            values |= {found[0]: found[1]} if found else {}
            others |= {} if found else {shown: None}
        elif _FILLS.fullmatch(called) and re.search(rf"\b{name}\b", shown):
            values[shown] = texts[-1]
        elif name in texts and called != function.name and not _NO_CHANGE.fullmatch(called):
            others[shown] = None
    sites = (site for site in facts.sites if site.host == host and site.kernel != function.name)
    named = (s for s in sites if name in [strip_casts(each) for each in s.arguments])
    others |= {f"line {site.line}: {site.kernel}<<<..>>>": None for site in named}
    return _Settings(values, tuple(others))


_MADE = (
    r"\b{n} ?(?:\[[^\]]*\] ?)*= ?\{{ ?(?P<a>0\w*)? ?\}} ?[;,]"
    r"|\b\w*vector ?<[^;<>]*> ?{n} ?[({{](?P<of>[^();{{}},]*)(?:, ?(?P<b>[^;{{}}]+?))?[)}}] ?;"
    r"|\b{n} ?= ?(?:\([^()]*\) ?)?(?P<c>calloc)\b|\bmemset ?\( ?&?{n} ?, ?(?P<d>0)\b"
    r"|\bfill(?:_n)? ?\( ?{n}\b[^;]*, ?(?P<e>[^;,]+?)\) ?;"
    r"|(?<![.>\w]){n} ?(?:\[[^\];]*\] ?)+= ?(?P<f>(?!=)[^;=]+?) ?;"
    r"|\w {n} ?= ?(?P<g>[-+\w.]+) ?[;,]"
)
"""What sets all elements of memory of the host, or one of them, to one value."""
_CHANGED = (
    r"(?<![.>\w]){n} ?(?:\[[^\];]*\] ?)+(?:[-+*/|&^]=|\+\+|--)|\b{n}\.push_back"
    r"|(?:>>|\+\+|--) ?{n}\b"
    r"|(?<![.>\w]){n} ?\[ ?\d+ ?\] ?=(?!=)|[;{{}}] ?{n} ?= ?(?!\w*alloc|new\b)[\w]"
)
"""What sets one element of it, or takes the content of other memory."""
_ONE_VALUE = re.compile(
    r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fFuUlL]*|[-+]?(?:[A-Z][A-Z_\d]*|[A-Z\w]*INF\w*)"
    r"|[-+]?std::numeric_limits<[\w ]+>::\w+\(\)|true|false|'\\0'"
)


def _find_value(name: str, host: Declaration) -> tuple[str, str] | None:
    """Return what sets memory of the host to one value, and that value; None for other content."""
    if not name.isidentifier():
        return None
    body = re.sub(r"\s+", " ", get_text(host.body))
    if re.search(_CHANGED.format(n=name), body) or _is_handed_on(name, host):
        return None
    found = dict[str, str]()
    for match in re.finditer(_MADE.format(n=name), body):
        of = match["of"]
        if of and re.search(rf"vector ?<[^;<>]*> ?{re.escape(of.strip())}\b", body):
            return None  # a copy of another one
        given = (value for key, value in match.groupdict().items() if key != "of")
        text = next(filter(None, given), "0").strip()
        bare = strip_casts(text)
        if not _ONE_VALUE.fullmatch(bare) and text != "calloc":
            return None
        found["0" if bare in ("calloc", "false", "'\\0'") else bare] = match[0].strip(" ;")
    if len(found) > 1:  # a later one wins over the zeros that it was made with
        found = {value: shown for value, shown in found.items() if to_fill(value) != "zeros"}
    return (
        next(((shown, value) for value, shown in found.items()), None) if len(found) == 1 else None
    )


def _is_handed_on(name: str, host: Declaration) -> bool:
    """Whether a function is called with memory of the host that may fill it."""
    known = re.compile(
        r"(?:.*::)?(?:free|malloc|calloc|memset|fill|fill_n|sizeof|cuda\w+|delete|\w*pointer_cast)"
    )
    return any(
        name in map(_find_memory, arguments)
        and not (known.fullmatch(called) or _NO_CHANGE.fullmatch(called))
        for called, arguments in iter_calls(host.body)
    )


def _set_start(array: Parameter, found: _Settings) -> Parameter:
    """Return an array with the values that its host gives it, or with the question for them."""
    is_integer = bool(array.dtype) and "float" not in (array.dtype or "")
    values = {*found.values.values()}
    fills = {to_fill(value) for value in values}
    shown = next(iter(found.values), "")
    if len(fills) == 1 and not found.others:
        fill, value = fills.pop(), values.pop()
        if fill == "zeros" or (fill == "ones" and array.role == "output"):
            return array._replace(fill=fill, asks_fill=("", ""))
        if array.role == "output" or is_integer or not re.match(r"[-+]?[\d.]", value):
            why = "" if fill.startswith("integers") else "; kernel.yaml has no such fill"
            guess = fill if fill.startswith("integers") else "zeros|ones|normal"
            return array._replace(asks_fill=(guess, shown + why))
        return array
    if not is_integer:
        return array
    if found.values:
        return array._replace(asks_fill=("zeros|integers 32", shown))
    memset = next((each for each in found.others if each.startswith(_OF_BYTES)), "")
    return array._replace(asks_fill=("integers 32|zeros", memset)) if memset else array
