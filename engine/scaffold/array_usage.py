"""Whether the body of a kernel reads an array, writes it, or hands it on."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from kernelkb.scaffold.brackets import find_bracket_end

AccessKind = Literal["read", "written", "changed", "handed on"]

_WRITE = re.compile(r"\s*(?:(=)(?!=)|(?:[-+*/%|&^]|<<|>>)=|\+\+|--)")
_MEMBER = re.compile(r"\s*(?:\.|->)\s*\w+")
_ONLY_READ = re.compile(
    r"(?:__ld\w+\s*\(\s*&?|\bconst\b[^;(){}=]*\*[^;(){}=]*=\s*&?"
    r"|_cast\s*<\s*const\b[^<>]*>\s*\(\s*&?|\(\s*const\b[^()]*\*\s*\)\s*&?)\s*$"
)
_ATOMIC = re.compile(r"\batomic(\w+)\s*\(\s*&?\s*$")
_ADDRESS = re.compile(r"(?:[(,=\[{?:]|\breturn|\(\s*[\w:]+(?:\s+\w+)*\s*\*+\s*\))\s*&\s*$")
_REFERENCE = re.compile(r"&\s*\w+\s*=\s*$")
_KNOWN_CALL = re.compile(
    r"__\w+|if|while|for|switch|return|sizeof|printf|static_cast|\w*_rn"
    r"|float|double|int|half|h?f?(?:abs|max|min|exp\d*|log\w*|r?sqrt|tanh?|sinh?|cosh?|pow|fma"
    r"|erfc?|floor|ceil|round|rint|isnan|isinf|isfinite)f?"
)


class ArrayUsage(NamedTuple):
    """How a body uses an array."""

    is_written: bool
    is_read: bool
    is_passed_on: bool
    """It appears where anything may happen to it: as an argument, as a pointer that moves."""
    is_index: bool


def analyze_array_usage(name: str, body: str) -> ArrayUsage:
    """Look at each place where a body names an array."""
    text = _strip_casts(name, body)
    places = re.finditer(rf"(?<![\w.])(?<!->){name}\b", text)
    ways = {_classify_access(text[: one.start()].rstrip(), text, one.end()) for one in places}
    return ArrayUsage(
        is_written=bool({"written", "changed"} & ways),
        is_read=bool({"read", "changed"} & ways),
        is_passed_on="handed on" in ways,
        is_index=re.search(rf"\[[^\[\]]*\b{name}\s*\[", text) is not None,
    )


def _strip_casts(name: str, body: str) -> str:
    """Take the casts off an array that is used as one of another type."""
    kind = r"[\w:]+(?:\s+\w+)*\s*\*"
    new = rf"reinterpret_cast\s*<\s*{kind}\s*>\s*\(\s*({name})\s*\)"
    old = rf"\(\s*\(\s*{kind}\s*\)\s*({name})\s*\)"
    return re.sub(
        rf"{new}|{old}", lambda m: f"{name}[0]" if re.search(r"\bconst\b", m[0]) else name, body
    )


def _classify_access(before: str, text: str, end: int) -> AccessKind:
    """Return what happens to an array at one place.

    Args:
        before: The text up to its name, without trailing blanks.
        text: All of it.
        end: Where the name ends.
    """
    if _ONLY_READ.search(before):
        return "read"
    atomic = _ATOMIC.search(before)
    if atomic:
        return "written" if atomic[1] == "Exch" else "changed"
    after = _find_element_end(before, text, end)
    if after is None or _ADDRESS.search(before) or _REFERENCE.search(before):
        return "handed on"
    if before.endswith(("++", "--")):
        return "changed"
    while member := _MEMBER.match(text, after):
        after = member.end()
    write = _WRITE.match(text, after)
    if write:
        return "written" if write[1] else "changed"
    return "handed on" if _is_unknown_call_argument(before, text[after:].lstrip()) else "read"


def _find_element_end(before: str, text: str, end: int) -> int | None:
    """Return where an element's text ends; None where the array itself is meant."""
    after = end
    while (found := re.compile(r"\s*\[").match(text, after)) is not None:
        after = find_bracket_end(text, found.end() - 1)
    if after > end or before.endswith("*"):
        return after
    if re.search(r"\*\s*\($", before):
        return find_bracket_end(text, len(before) - 1)
    return None


def _is_unknown_call_argument(before: str, after: str) -> bool:
    """Say whether an element is an argument of a function that may take a reference."""
    if not before.endswith(("(", ",")) or not after.startswith((",", ")")):
        return False
    depth = 0
    for place in range(len(before) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(before[place], 0)
        if depth < 0:
            called = re.search(r"(\w+)\s*(?:<[^<>]*>)?\s*$", before[:place])
            return called is not None and _KNOWN_CALL.fullmatch(called[1]) is None
    return False
