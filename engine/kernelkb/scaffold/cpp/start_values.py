"""What an array holds before a call: the zeros that its host sets it to, or what is asked."""

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
_NO_CHANGE = re.compile(
    r"cuda(?:Malloc|Free|Memset|Memcpy)\w*|cudaDeviceSynchronize|sizeof|.*device_ptr"
    r"|.*pointer_cast|\w*(?:[cC]heck|CHECK)\w*"
)
_NUMBER = re.compile(r"-?(?:[\d.]+(?:[eE]-?\d+)?[fF]?|[A-Z][A-Z_]+)")
_ONE_NUMBER = re.compile(r"&\w+")


class _Settings(NamedTuple):
    """The calls of a host that set or change the memory that it passes to a kernel, as written."""

    zeros: tuple[str, ...]
    """Those that set all of its bytes to 0."""
    memsets: tuple[str, ...]
    """Those that set them to something else."""
    copies: Mapping[str, str]
    """Those that copy to it, with what they copy."""
    others: tuple[str, ...]
    """Those that it is handed on to."""
    literal: str
    """What sets each element of what is copied to it to one number; empty without it."""


def fill_starts(function: Function, facts: SourceFacts) -> Function:
    """Return a function whose arrays that its host sets to zeros are so, or are asked for."""
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
    zeros, memsets, copies, others = list[str](), list[str](), dict[str, str](), list[str]()
    for called, arguments in iter_calls(host.body):
        texts = [_find_memory(each) for each in arguments]
        shown = f"{called}({', '.join(arguments)})"
        is_target = texts[:1] == [name] and len(texts) > 1
        if called in _OF_BYTES and is_target:
            (zeros if to_fill(texts[1]) == "zeros" else memsets).append(shown)
        elif called in _COPIES and is_target:
            copies[shown] = arguments[1]
        elif name in texts and called != function.name and not _NO_CHANGE.fullmatch(called):
            others.append(shown)
    sites = (site for site in facts.sites if site.host == host and site.kernel != function.name)
    named = (s for s in sites if name in [strip_casts(each) for each in s.arguments])
    others += (f"line {site.line}: {site.kernel}<<<..>>>" for site in named)
    literal = next(filter(None, (_find_literal(text, host) for text in copies.values())), "")
    return _Settings(tuple(zeros), tuple(memsets), copies, tuple(others), literal)


def _find_literal(name: str, host: Declaration) -> str:
    """Return the statement that sets all elements of memory of the host to one number."""
    sets = re.compile(rf"(?<![.>\w]){re.escape(name)}\s*\[[^\];]*\]\s*=\s*([^;=]+);")
    found = {match[1]: match[0] for match in sets.finditer(get_text(host.body))}
    value, shown = next(iter(found.items()), ("", ""))
    return shown if len(found) == 1 and _NUMBER.fullmatch(value) else ""


def _set_start(array: Parameter, found: _Settings) -> Parameter:
    """Return an array with the zeros that its host gives it, or with the question for its values.

    They are asked of integers that are set, or are one number, and of outputs of one value.
    """
    if found.zeros and not (found.memsets or found.copies or found.others):
        return array._replace(fill="zeros", asks_fill=("", ""))
    is_integer = bool(array.dtype) and "float" not in (array.dtype or "")
    numbers = [call for call, text in found.copies.items() if _ONE_NUMBER.fullmatch(text)]
    if is_integer and found.zeros:
        return array._replace(asks_fill=("zeros|integers 32", found.zeros[0]))
    if is_integer and (found.memsets or numbers):
        return array._replace(asks_fill=("integers 32|zeros", (*found.memsets, *numbers)[0]))
    if array.role == "output" and found.literal:
        return array._replace(asks_fill=("zeros|ones|normal", found.literal))
    return array
