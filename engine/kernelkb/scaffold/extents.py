"""Extents of arrays as text: names, numbers and arithmetic of both."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_AXIS = re.compile(r"[A-Za-z_][\w.]*")


def list_axes(shape: Sequence[str]) -> list[str]:
    """Return the names in a shape's extents, which are names, numbers and arithmetic of both."""
    return _AXIS.findall(" ".join(shape))


def rename_axes(extent: str, names: Mapping[str, str]) -> str:
    """Return an extent with other names of its axes, for those that have one."""
    return _AXIS.sub(lambda name: names.get(name[0], name[0]), extent)


def split_shape(text: str) -> tuple[str, ...]:
    """Return the extents of a shape in brackets, as ``[rows + 1, 64]``; none of an empty text."""
    return tuple(part.strip() for part in text.strip("[] ").split(",") if part.strip())


_LITERAL = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'")


def split_call(text: str, start: int) -> tuple[list[str], int] | None:
    """Return the arguments of a macro from behind its parenthesis, and where they end."""
    depth, arguments, begin, quoted = 0, list[str](), start, start
    for place in range(start, min(len(text), start + 20_000)):
        letter = text[place]
        if place < quoted:
            continue
        if letter in "\"'" and (literal := _LITERAL.match(text, place)):
            quoted = literal.end()
        elif letter in "([{":
            depth += 1
        elif letter in ")]}" and depth:
            depth -= 1
        elif letter == ")":
            return [*arguments, text[begin:place]], place + 1
        elif letter == "," and not depth:
            arguments.append(text[begin:place])
            begin = place + 1
    return None
