"""Takes structures apart that functions take by value, so that their fields are arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kernelkb.scaffold.cpp.syntax import Structure, drop_comments

_STRUCTURE = re.compile(
    r"(?:template\s*<([^<>]*)>\s*)?\bstruct\s+(?:__align__\(\d+\)\s*|alignas\(\d+\)\s*)?(\w+)"
    r"\s*\{"
)
_FIELD = re.compile(
    r"^((?:(?:const|unsigned|long|struct|typename)\s+)*[A-Za-z_][\w:]*(?:<[^<>;]*>)?(?:\s+const)?)"
    r"((?:\s*\*|\s|__restrict__|const\b)*[\s*])([A-Za-z_]\w*)\s*(?:=[^;,]*|\{[^{}]*\})?$"
)


_TYPEDEF = re.compile(r"\btypedef\s+struct\b\s*(\w*)\s*(\{[^{}]*\})\s*(\w+)[^;{}]*;")


class _Layout(NamedTuple):
    template: tuple[str, ...]
    fields: tuple[tuple[str, str], ...]
    """Type and name of each."""


def take_structures_apart(texts: Sequence[str]) -> tuple[list[str], list[Structure]]:
    """Return texts in which functions take the fields of structures, and what was taken apart.

    ``k(Params p) { p.y[0] = p.n; }`` becomes ``k(float *y, int n) { y[0] = n; }``, on the same
    lines. A structure with a base, arrays or methods that are called stays as it is.
    """
    named = _TYPEDEF.sub(r"struct \1 \2; struct \3 \2;", "\n".join(map(drop_comments, texts)))
    layouts = _read_layouts(named)
    found: list[Structure] = []
    return [_take_apart(text, layouts, found) for text in texts] if layouts else [*texts], found


def _read_layouts(text: str) -> dict[str, _Layout]:
    """Map each structure of plain fields to them."""
    layouts: dict[str, _Layout] = {}
    for match in _STRUCTURE.finditer(text):
        names = tuple(re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", match[1] or ""))
        fields = _read_fields(text[match.end() : _find_end(text, match.end())])
        # One of numbers alone, as a complex number, is a value.
        if any("*" in kind for kind, _ in fields):
            layouts[match[2]] = _Layout(names, tuple(fields))
    return layouts


def _read_fields(body: str) -> list[tuple[str, str]]:
    """Return type and name of each field; none where one is an array or has an unknown form."""
    flat = body
    while (inner := re.sub(r"\{[^{}]*\}", ";", flat)) != flat:
        flat = inner
    fields = []
    for line in filter(None, (" ".join(each.split()) for each in flat.split(";"))):
        if line.startswith(("static ", "using ", "typedef ", "enum ")) or "(" in line:
            continue
        first, *more = line.partition(":")[2].split(",") if line == "public:" else line.split(",")
        match = _FIELD.match(re.sub(r"^(?:public|private)\s*:\s*", "", first).strip())
        if match is None:
            return []
        kind = match[1] + re.sub(r"[^*]", "", match[2])
        fields.append((kind, match[3]))
        for name in more:
            own = re.fullmatch(r"\s*(\**)\s*(\w+)\s*(?:=.*)?", name)
            if own is None:
                return []
            fields.append((match[1] + own[1], own[2]))
    return fields


def _find_end(text: str, start: int, pair: str = "{}") -> int:
    """Return where the block ends that begins before a place."""
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] == pair[0]) - (text[place] == pair[1])
        if not depth:
            return place
    return len(text)


def _take_apart(text: str, layouts: Mapping[str, _Layout], found: list[Structure]) -> str:
    kinds = "|".join(map(re.escape, layouts))
    taken = re.compile(
        rf"(?<=[(,])(\s*(?:\w*GRID_CONSTANT\s+|__grid_constant__\s+)?(?:const\s+)?)(?:struct\s+)?(?:\w+::)*({kinds})"
        r"(<[^<>()]*>)?(?:\s*const)?\s*&?\s+&?(?:const\s+)?(\w+)(?=\s*[,)])"
    )
    while (match := taken.search(text)) is not None:
        layout, parameter = layouts[match[2]], match[4]
        head = max(text.rfind(mark, 0, match.start()) for mark in ";}") + 1
        closing = _find_end(text, match.end(), "()")
        opening = re.compile(r"[{;]").search(text, closing)
        begin = opening.end() if opening and opening[0] == "{" else closing
        end = _find_end(text, begin) if begin != closing else closing
        called = re.findall(r"\b(\w+)\s*\(", text[head : match.start() + 1])
        other = text[head : match.start()] + text[match.end() : closing] + text[begin:end]
        taken_names = {*re.findall(r"(?<![.>\w])\w+", other)}
        names = {f: f"{parameter}_{f}" if f in taken_names else f for _, f in layout.fields}
        given = dict(zip(layout.template, (match[3] or "<>")[1:-1].split(","), strict=False))
        parts = [f"{_fill(kind, given)} {names[field]}" for kind, field in layout.fields]
        body = _pass_on(text[begin:end], parameter, names)
        if begin != closing and called:
            kind = f"{match[2]}{match[3] or ''}"
            found.append(Structure(called[-1], parameter, kind, tuple(names.items())))
        lines = "\n" * match[0].count("\n")
        parameters = ", ".join(parts) + lines + text[match.end() : begin]
        text = text[: match.start()] + parameters + body + text[end:]
    return _expand_locals(text, layouts, kinds)


def _fill(kind: str, given: Mapping[str, str]) -> str:
    return re.sub(r"\w+", lambda match: given.get(match[0], match[0]).strip(), kind)


def _pass_on(body: str, parameter: str, names: Mapping[str, str]) -> str:
    """Return a body that uses the fields' own names, also where it passes all of them on."""
    own = rf"(?<![.>\w]){re.escape(parameter)}"
    body = re.sub(rf"{own}\.(\w+)\b", lambda m: names.get(m[1], m[0]), body)
    return re.sub(rf"(?<=[(,])(\s*){own}(?=\s*[,)])", rf"\1{', '.join(names.values())}", body)


def _expand_locals(text: str, layouts: Mapping[str, _Layout], kinds: str) -> str:
    """Pass the fields of a local structure one by one, as what was assigned to each."""
    declared = re.compile(rf"\b({kinds})(?:<[^<>;()]*>)?\s+(\w+)\s*(?:=?\s*\{{([^{{}};]*)\}})?\s*;")
    for match in [*declared.finditer(text)]:
        fields = [field for _, field in layouts[match[1]].fields]
        values = dict(zip(fields, (match[3] or "").split(","), strict=False)) if match[3] else {}
        for field in fields:
            sets = re.findall(rf"\b{match[2]}\.{field}\s*=(?!=)\s*([^;]+);", text)
            values |= {field: sets[0]} if len(sets) == 1 else {}
        passed = [" ".join(values.get(f, f"{match[2]}.{f}").split()) for f in fields]
        shown = ", ".join(passed).replace("\\", r"\\")
        text = re.sub(rf"(?<=[(,])(\s*){match[2]}(?=\s*[,)])", rf"\g<1>{shown}", text)
    return text
