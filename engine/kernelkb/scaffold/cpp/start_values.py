"""What an array holds before a call: what its host clears, and what its elements have to be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kernelkb.scaffold.cpp.functions import SourceFacts
from kernelkb.scaffold.cpp.syntax import Declaration, get_text, iter_calls, strip_casts
from kernelkb.scaffold.draft import Function, Parameter

_ZERO = re.compile(r"(?:\(\w+\)\s*)?[-+]?0*(?:0|0x0+|0?\.0*|0\.0*|'\\0'|false)[fFuUlL]*")
_OF_BYTES = ("cudaMemset", "cudaMemsetAsync")
_COPIES = ("cudaMemcpy", "cudaMemcpyAsync")
_FILLS = re.compile(r"(?:thrust|std)?(?:::)?(?:fill|fill_n|uninitialized_fill)(?:_n)?")
_NO_CHANGE = re.compile(
    r"cuda(?:Malloc|Free|Memset|Memcpy)\w*|cudaDeviceSynchronize|sizeof|.*device_(?:ptr|pointer_cast)|\w*(?:[cC]heck|CHECK)\w*"
)


class _Settings(NamedTuple):
    """What a host does to the memory that it passes to a kernel."""

    zeros: tuple[str, ...] = ()
    """Calls that clear it."""
    others: tuple[str, ...] = ()
    """Calls that fill it with something else, or hand it on."""


def fill_starts(function: Function, facts: SourceFacts) -> Function:
    """Return a function whose arrays that its host clears are zeros; else integers are asked.

    Args:
        function: A kernel, or a launcher, whose calls in the file show what is passed.
        facts: The file.
    """
    callers = [*_iter_callers(function, facts)]
    if not callers:
        return function
    host, arguments = callers[0]
    passed = dict(zip([p.name for p in function.parameters], arguments, strict=False))
    parameters = []
    for each in function.parameters:
        text = strip_casts(passed.get(each.name, ""))
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


def _read_settings(
    name: str, host: Declaration, function: Function, facts: SourceFacts
) -> _Settings:
    zeros, others = dict[str, None](), dict[str, None]()
    for called, arguments in iter_calls(host.body):
        texts = [strip_casts(each) for each in arguments]
        shown = f"{called}({', '.join(arguments)})"
        if called in _OF_BYTES and texts[:1] == [name] and len(texts) > 1:
            (zeros if _ZERO.fullmatch(texts[1]) else others)[shown] = None
        elif called in _COPIES and texts[:1] == [name] and len(texts) > 1:
            (zeros if _is_zero(texts[1], host) else others)[shown] = None
        elif _FILLS.fullmatch(called) and re.search(rf"\b{name}\b", shown):
            (zeros if _ZERO.fullmatch(texts[-1]) else others)[shown] = None
        elif name in texts and called != function.name and not _NO_CHANGE.fullmatch(called):
            others[shown] = None
    sites = (site for site in facts.sites if site.host == host and site.kernel != function.name)
    named = (s for s in sites if name in [strip_casts(each) for each in s.arguments])
    others |= {f"line {site.line}: {site.kernel}<<<..>>>": None for site in named}
    return _Settings(tuple(zeros), tuple(others))


def _is_zero(name: str, host: Declaration) -> bool:
    """Whether memory of the host that is copied is seen to hold zeros, and is not set again."""
    name = re.sub(r"\.data\(\)$|\[0\]$|\.begin\(\)$", "", name)
    if not name.isidentifier():
        return False
    body = re.sub(r"\s+", " ", get_text(host.body))
    zero = r"(?:0|0?\.0*|0\.0*)[fFuUlL]*"
    made = (
        rf"\b{name} ?(?:\[[^\]]*\] ?)*= ?(?:\{{ ?(?:{zero})? ?\}}|{zero}) ?[;,]"
        rf"|\b{name} ?\([^();]*, ?{zero} ?\) ?;|\b{name} ?= ?(?:\([^()]*\) ?)?calloc\b"
        rf"|\bmemset ?\( ?&?{name} ?, ?0\b|\bfill(?:_n)? ?\( ?{name}\b[^;]*, ?{zero} ?\)"
    )
    again = (
        rf"\b{name} ?(?:\[[^\]]*\] ?)+(?:[-+*/|&^]?= ?(?!=|{zero} ?;)|\+\+|--)|\b{name}\.push_back"
        rf"|\b{name} ?[-+*/]= ?|(?:>>|\+\+|--) ?{name}\b"
    )
    return bool(re.search(made, body)) and not re.search(again, body)


def _set_start(array: Parameter, found: _Settings) -> Parameter:
    """Return an array with the values that its host gives it, or with the question for them."""
    is_integer = bool(array.dtype) and "float" not in (array.dtype or "")
    if found.zeros and not found.others:
        return array._replace(fill="zeros", asks_fill=("", ""))
    if not is_integer:
        return array
    if found.zeros:
        return array._replace(asks_fill=("zeros|integers 32", found.zeros[0]))
    memset = next((each for each in found.others if each.startswith(_OF_BYTES)), "")
    return array._replace(asks_fill=("integers 32|zeros", memset)) if memset else array
