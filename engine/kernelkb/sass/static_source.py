"""Names what a fact is about from the text of its lines: an array, a divisor, a literal."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kernelkb.model.answers.static_facts import KernelFacts, StaticFact, StaticKind, StaticPlace

_COMMENT = re.compile(r"//.*|/\*.*?\*/")
_ARRAY = re.compile(
    r"^(?!.*(?:__shared__|__constant__|extern)).*?\b[\w:>]+\s+(\w+)\s*\[[^\]]*\]", re.MULTILINE
)
_INDEXED = re.compile(r"\b(\w+)\s*\[")
_DOUBLE = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?(?![\w.])")
_DIVISOR = re.compile(
    r"[/%]=?\s*(?:static_cast<[^<>]*>\s*\()?(?:\([\w:\s]+\)\s*)?([A-Za-z_]\w*)(?!\w*\s*[(<])"
)
_FUNCTION = re.compile(
    r"\b(?:std::)?((?:sqrt|rsqrt|pow|exp\w?|log\w*|div|fdiv|hypot|norm\w*)f?)\s*\("
)
_TRIGONOMETRY = re.compile(r"\b(?:std::)?((?:sin|cos|tan|sincos)(?:pi)?f?)\s*\(")
_LOCAL: tuple[StaticKind, ...] = ("local-array", "spill")


def add_source_text(found: KernelFacts, sources: Mapping[str, str]) -> KernelFacts:
    """Return the facts with the text of their lines, and the names that these tell.

    Args:
        found: Facts about one function.
        sources: Text of files, by path as in the places.
    """
    lines = {path: text.splitlines() for path, text in sources.items()}
    arrays = {path: set(_ARRAY.findall(_COMMENT.sub("", text))) for path, text in sources.items()}
    facts = [_add_to_fact(fact, lines, arrays) for fact in found["facts"]]
    return {**found, "facts": facts}


def _add_to_fact(
    fact: StaticFact, lines: Mapping[str, list[str]], arrays: Mapping[str, set[str]]
) -> StaticFact:
    places: list[StaticPlace] = []
    for place in fact["places"]:
        rows = lines.get(place["file"], [])
        text = rows[place["line"] - 1].strip() if 0 < place["line"] <= len(rows) else ""
        names = find_names(fact["kind"], text, arrays.get(place["file"], set()))
        places.append({**place, "text": text, "names": names})
    return {**fact, "places": places}


def find_names(kind: StaticKind, text: str, arrays: set[str]) -> list[str]:
    """Return what a fact of a line is about; empty where the line does not tell.

    Args:
        kind: Which fact.
        text: The line.
        arrays: Names of the arrays that the file declares outside of shared memory.
    """
    text = _COMMENT.sub("", text)
    if kind in _LOCAL:
        indexed = [name for name in _INDEXED.findall(text) if name in arrays]
        found = indexed or _TRIGONOMETRY.findall(text)
    elif kind == "fp64":
        found = _DOUBLE.findall(text)
    elif kind in ("integer-division", "precise-division"):
        found = _DIVISOR.findall(text)
        found += _FUNCTION.findall(text) if kind == "precise-division" else []
    else:
        found = []
    return list(dict.fromkeys(found))
