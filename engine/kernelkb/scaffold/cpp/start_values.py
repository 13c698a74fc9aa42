"""What an array holds before a call: one value that its host sets it to, or what is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.scaffold.answers import to_fill
from kernelkb.scaffold.cpp.element_uses import (
    find_positive,
    iter_settings,
    iter_subscripts,
    show_line,
)
from kernelkb.scaffold.cpp.functions import SourceFacts, build_function
from kernelkb.scaffold.cpp.syntax import (
    Declaration,
    get_text,
    iter_calls,
    iter_nodes,
    read_called_name,
    strip_casts,
)
from kernelkb.scaffold.draft import Function, Parameter

if TYPE_CHECKING:
    from tree_sitter import Node

_OF_BYTES = ("cudaMemset", "cudaMemsetAsync")
_ALL_BITS = r"-1|0[xX][fF]+[uU]?|255"
"""A byte of which each signed integer is -1."""
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


def ask_needed_values(function: Function, own: Declaration, facts: SourceFacts) -> Function:
    """Return a function whose arrays that a search or a division reads are asked for their values.

    A search needs ascending ones; integers that divide are not 0, and strides are of one shape.
    """
    parameters = []
    for each in function.parameters:
        is_open = each.role == "input" or (each.role == "output" and each.is_read)
        dtype = each.dtype or ""
        bodies = [*_iter_readers(each.name, own, facts)] if is_open and not each.points_into else []
        searched = next(filter(None, (_find_search(*body) for body in bodies)), "").rstrip(";")
        divides = next(filter(None, (find_positive(*body) for body in bodies)), None)
        size = each.shape[0] if each.shape and each.shape[0].isidentifier() else "1024"
        if searched and each.fill in ("", "uniform"):
            why = f"{searched}; it has to ascend: 'offsets {size}' draws 0 to {size}"
            each = each._replace(asks_fill=(f"offsets {size}", why), fill="", indexes=("", 0))
        elif dtype.startswith(("int", "uint")) and each.fill in ("", "uniform"):
            if divides is not None:
                why = f"{show_line(divides).rstrip(';')}; none may be 0"
                each = each._replace(asks_fill=("ones|integers 32 from 1", why), fill="")
            elif _STRIDES.fullmatch(each.name.lower()) and bodies:
                why = "no fill of kernel.yaml draws the strides of a shape"
                each = each._replace(asks_fill=("ones|integers 32 from 1", why))
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


_STRIDES = re.compile(r"\w*strides\d*_?")
_SEARCH = re.compile(
    r"\w*(?:lower_?bound|upper_?bound|equal_?range|binary_?search|bsearch|search_?sorted)\w*",
    re.IGNORECASE,
)
_HALF = re.compile(r"/\s*2\b|>>\s*1\b")
_DEPTH = 3


def _iter_readers(
    name: str, own: Declaration, facts: SourceFacts, depth: int = 0
) -> Iterator[tuple[str, Node]]:
    """Yield the bodies that an array is handed to, itself, each with its name there."""
    if own.body is None or depth > _DEPTH:
        return
    yield name, own.body
    called = [*iter_calls(own.body)]
    called += [(s.kernel, [*s.arguments]) for s in facts.sites if s.host == own]
    bodies = {d.name: d for d in facts.declarations if d.body is not None and d != own}
    for function, arguments in called:
        inner = bodies.get(function)
        names = [p.name for p in build_function(inner).parameters] if inner else []
        for given, text in zip(names, arguments, strict=False):
            if inner is not None and strip_casts(text) == name:
                yield from _iter_readers(given, inner, facts, depth + 1)


def _find_search(array: str, body: Node) -> str:
    """Return the line that searches an array which ascends; empty for none.

    A call with a pointer to it, ``lower_bound(x, x + n, y)``; or an element in the middle of two
    places, one of which becomes the middle.
    """
    own = rf"(?:\([\w\s*]+\)\s*)?&?\s*{re.escape(array)}\b(?!\s*\[[^\]]*\]\s*$)"
    for node in iter_nodes(body):
        given = node.child_by_field_name("arguments")
        called = read_called_name(node.child_by_field_name("function"))
        is_search = node.type == "call_expression" and _SEARCH.fullmatch(called)
        places = given.named_children if given and is_search else ()
        if any(re.match(own, get_text(each)) for each in places):
            return show_line(node)
    values: dict[str, set[str]] = {}
    for name, value in iter_settings(body):
        values.setdefault(name, set()).add(get_text(value))
    halves = {n for n, texts in values.items() if any(map(_HALF.search, texts))}
    words = {n: {w for t in texts for w in re.findall(r"\w+", t)} for n, texts in values.items()}
    middles = {n for n in values if n in halves or words[n] & halves}
    for base, index in iter_subscripts(body):
        for middle in middles & {*re.findall(r"\w+", get_text(index))} if base == array else ():
            ends = words[middle] & values.keys() - {middle}
            moved = rf"{middle}(?:\s*[-+]\s*1)?"
            if any(re.fullmatch(moved, text) for end in ends for text in values[end]):
                return show_line(index)
    return ""


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
            value = "-1" if re.fullmatch(_ALL_BITS, strip_casts(texts[1])) else texts[1]
            is_value = value == "-1" or to_fill(value) == "zeros"
            values |= {shown: value} if is_value else {}
            others |= {} if is_value else {shown: None}
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
    if not is_integer and shown.startswith(_OF_BYTES) and "-1" in values:
        return array
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
        fill = to_fill(next(iter(found.values.values())))
        fill = fill if fill.startswith("integers") else "zeros"
        return array._replace(asks_fill=(f"{fill}|integers 32", shown))
    memset = next((each for each in found.others if each.startswith(_OF_BYTES)), "")
    return array._replace(asks_fill=("integers 32|zeros", memset)) if memset else array
