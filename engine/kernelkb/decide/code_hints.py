"""Finds what a line of source accesses, so that a fix can point at it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelkb.model.entries.source_line import CodePlace

_ACCESS = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->)\w+)*\s*(?:\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\])+")
_ASSIGNMENT = re.compile(r"(?<![=!<>])[-+*/|&^]?=(?!=)")
_STORES = ("ST", "RED")
_OPERATION = re.compile(r"(?:@!?U?P[T\d]\s+)?(?P<name>\w+)")
_FACTOR = re.compile(r"[*]|<<")
_MAX_CHARS = 60


def find_access(place: CodePlace) -> str | None:
    """Return the array access of a line that an instruction makes: ``x[row * cols + i]``.

    Of a store the one that is assigned to; of a load the one with a factor in its index, which
    is the one that may lie far from its neighbours, or else the first. None without an access.
    """
    text = place["text"].partition("//")[0]
    target, sign, value = _split_assignment(text)
    operation = _OPERATION.match(place["instruction"])
    is_store = operation is not None and operation["name"].startswith(_STORES)
    found = _ACCESS.findall(target if is_store and sign else value if sign else text)
    found = found or _ACCESS.findall(text)
    best = next((one for one in found if not is_store and _FACTOR.search(one)), None)
    chosen = best or (found[-1 if is_store else 0] if found else None)
    return chosen if chosen is not None and len(chosen) <= _MAX_CHARS else None


def _split_assignment(text: str) -> tuple[str, str, str]:
    """Return what is assigned to, the sign, and what is assigned: of the last assignment."""
    signs = list(_ASSIGNMENT.finditer(text))
    if not signs:
        return "", "", text
    last = signs[-1]
    return text[: last.start()], last[0], text[last.end() :]
