"""Formats what machine code shows about a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelkb.model.answers.static_facts import KernelFacts, StaticFact, StaticReport

_MAX_LINES = 5
_MAX_NAMES = 3
_MAX_FACTS = 8
"""Lines printed of one kernel."""
_NAME = re.compile(r"\d+")


def format_static_report(report: StaticReport) -> Iterator[str]:
    """Yield a line for each notable fact, or the one line that says why there is none."""
    if report["reason"]:
        yield f"  machine code not read: {report['reason']}"
    kernels: dict[tuple[str, ...], list[str]] = {}
    for found in report["kernels"]:
        lines = tuple(_list_facts(found))
        if lines:
            kernels.setdefault(lines, []).append(find_plain_name(found["kernel"]))
    for lines, names in kernels.items():
        if len(report["kernels"]) > 1:
            alike = f", {len(names)} alike" if len(names) > 1 else ""
            yield f"  {', '.join(dict.fromkeys(names))}{alike}:"
        yield from (f"    {line}" for line in lines)


def _list_facts(found: KernelFacts) -> Iterator[str]:
    facts = [fact for fact in _merge_widths(found["facts"]) if fact["notable"]]
    yield from map(describe_fact, facts[:_MAX_FACTS])
    if len(facts) > _MAX_FACTS:
        yield f"and {len(facts) - _MAX_FACTS} more"


def describe_fact(fact: StaticFact) -> str:
    """Return a fact with its lines and names: ``line 29: arithmetic in fp64: 70 DFMA (0.01)``."""
    names = dict.fromkeys(name for place in fact["places"] for name in place["names"])
    words = fact["words"]
    if names:
        more = ", ..." if len(names) > _MAX_NAMES else ""
        words += f" ({', '.join(list(names)[:_MAX_NAMES])}{more})"
    where = _format_lines(fact)
    return f"{where}: {words}" if where else words


def _format_lines(fact: StaticFact) -> str:
    """Return the lines that hold most of a fact, in the order of the source."""
    places = sorted(fact["places"], key=lambda place: (-place["count"], place["line"]))
    lines = sorted({place["line"] for place in places[:_MAX_LINES]})
    if not lines:
        return ""
    rest = len({place["line"] for place in places} - set(lines))
    more = f" and {rest} more" if rest else ""
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}{more}"


def _merge_widths(facts: Iterable[StaticFact]) -> Iterator[StaticFact]:
    """Yield the facts with narrow global accesses of all widths and directions as one."""
    facts = list(facts)
    narrow = [fact for fact in facts if fact["kind"] == "global-width" and fact["notable"]]
    if len(narrow) < 2:
        yield from facts
        return
    merged = narrow[0].copy()
    merged["words"] = _join_widths(narrow)
    merged["places"] = [place for fact in narrow for place in fact["places"]]
    for fact in facts:
        if fact is narrow[0]:
            yield merged
        elif fact not in narrow:
            yield fact


def _join_widths(facts: Iterable[StaticFact]) -> str:
    """Return ``global load of 2, 4 bytes a lane, global store of 2 bytes a lane``."""
    widths: dict[str, list[float]] = {}
    for fact in facts:
        widths.setdefault(fact["words"].split(" of ")[0], []).append(fact["amount"])
    return ", ".join(
        f"{what} of {', '.join(f'{width:.0f}' for width in sorted(found))} bytes a lane"
        for what, found in widths.items()
    )


def find_plain_name(mangled: str) -> str:
    """Return the last identifier of a mangled name: ``walk`` of ``_ZN...4walkEPKf``."""
    if not mangled.startswith("_Z"):
        return mangled
    at, name = (3 if mangled.startswith("_ZN") else 2), ""
    while found := _NAME.match(mangled, at):
        at = found.end() + int(found[0])
        name = mangled[found.end() : at]
    return name or mangled
