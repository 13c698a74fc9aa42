"""Writes out the names of pointer, reference and const types in C++ text, before it is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_DEFINITION = re.compile(
    r"(?:^|(?<=[;{}]))[ \t]*(?:using\s+(\w+)\s*=\s*([^;{}()\[\]=]+)|typedef\s+([^;{}()\[\]=]+));",
    re.MULTILINE,
)
_TYPEDEF = re.compile(r"(.+?)((?:[*&\s]|\b(?:const|__restrict__)\b)*)\b(\w+)", re.DOTALL)
_MORE = re.compile(r"((?:[*&\s]|\bconst\b)*)\b(\w+)")
_KIND = re.compile(r"[\w:<>,*& ]+")
_BRACE = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/'
    r'|(?P<scope>\bnamespace\b[^;{}()]*|\bextern\s*"C"\s*)?(?P<brace>[{}])',
    re.DOTALL,
)
_ON_TOP = re.compile(r"(?:[*&]\s*(?:\b\w+\b\s*)*)+$")
"""At the end of a type: it is a pointer or a reference."""
_NOWHERE, _EVERYWHERE = (0, 0), (0, 2**60)
_MAX_PASSES = 5
"""Aliases that are made of aliases."""


class _Alias(NamedTuple):
    """One definition of a type's name."""

    name: str
    kind: str
    place: tuple[int, int]
    """Of the statement that defines it; ``_NOWHERE`` for one of a header."""
    scope: tuple[int, int]
    """Where it is known."""

    @property
    def is_expanded(self) -> bool:
        """Whether the name hides that a parameter is an array, or that it is a size."""
        return bool(re.search(r"[*&]|\bconst\b", self.kind))


def expand_aliases(text: str, headers: Sequence[str] = ()) -> str:
    """Return C++ text with the pointer, reference and const types that names stand for.

    ``using P = const float*; void f(P x);`` becomes ``void f(const float* x);`` on the same lines.
    A name that has two meanings in one scope stays.

    Args:
        text: What a file holds.
        headers: What the files hold that it includes.
    """
    outer = _list_outer(headers)
    for _ in range(_MAX_PASSES):
        own = _list_aliases(text)
        defined = {each.name for each in own}
        known = [*own, *(each for each in outer if each.name not in defined)]
        if not known:
            break
        expanded = _expand(text, known, _list_ready(known))
        if expanded == text:
            break
        text = expanded
    return text


def _list_ready(known: Sequence[_Alias]) -> list[_Alias]:
    """Return the aliases with one meaning whose type names no alias that is still to expand."""
    kinds: dict[tuple[str, tuple[int, int]], set[str]] = {}
    for each in known:
        kinds.setdefault((each.name, each.scope), set()).add(each.kind)
    clear = [e for e in known if e.is_expanded and len(kinds[e.name, e.scope]) == 1]
    names = {each.name for each in clear}
    return [each for each in clear if not names & {*re.findall(r"\w+", each.kind)}]


def _list_outer(headers: Sequence[str]) -> list[_Alias]:
    """Return the aliases that headers define outside of functions and classes, written out."""
    definitions = [
        f"using {each.name} = {each.kind};"
        for header in headers
        for each in _list_aliases(header)
        if each.scope == (0, len(header))
    ]
    found: list[_Alias] = []
    rest = "\n".join(dict.fromkeys(definitions))
    for _ in range(_MAX_PASSES):
        known = _list_aliases(rest)
        chosen = _list_ready(known)
        if not chosen:
            break
        found += [each._replace(place=_NOWHERE, scope=_EVERYWHERE) for each in chosen]
        rest = _expand(rest, known, chosen)
    return found


def _list_aliases(text: str) -> list[_Alias]:
    """List the names of types that a text defines, those of templates apart."""
    matches = list(_DEFINITION.finditer(text))
    if not matches:
        return []
    blocks = sorted(iter_blocks(text), key=lambda block: block[1] - block[0])
    found = []
    for match in matches:
        begin, end = match.span()
        if text[:begin].rstrip().endswith(">"):  # of a template, which takes arguments
            continue
        whole = (0, len(text))
        scope = next((each for each in blocks if each[0] < begin and end <= each[1]), whole)
        for name, kind in _read_definition(match):
            plain = re.sub(r"\s*([*&])", r"\1", " ".join(kind.split()))
            if _KIND.fullmatch(plain):
                found.append(_Alias(name, plain, match.span(), scope))
    return found


def _read_definition(match: re.Match[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that a statement defines, and its type."""
    if match[1]:
        yield match[1], match[2]
        return
    first, *more = _split(match[3])
    head = _TYPEDEF.fullmatch(first.strip())
    if head is None:
        return
    yield head[3], head[1] + head[2]
    for each in more:
        other = _MORE.fullmatch(each.strip())
        if other is not None:
            yield other[2], head[1] + other[1]


def iter_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the blocks in braces begin and end, without namespaces."""
    stack: list[tuple[int, bool]] = []
    for match in _BRACE.finditer(text):
        if match["brace"] == "{":
            stack.append((match.start("brace"), bool(match["scope"])))
        elif match["brace"] and stack:
            begin, is_scope = stack.pop()
            if not is_scope:
                yield begin, match.end()


def _expand(text: str, known: Sequence[_Alias], chosen: Sequence[_Alias]) -> str:
    """Return a text without the chosen definitions, with their types in place of their names."""
    places = {each.place for each in chosen if each.place != _NOWHERE}
    edits = [_drop_definition(text, place, known, chosen) for place in places]
    names = "|".join(dict.fromkeys(re.escape(each.name) for each in chosen)) or "(?!)"
    pattern = re.compile(
        rf"(?<![\w.])(?<!->)(const[ \t]+)?(?:\w+[ \t]*::[ \t]*)*\b({names})\b([ \t]+const\b)?"
    )
    for match in pattern.finditer(text):
        at = match.start(2)
        near = [e for e in known if e.name == match[2] and e.scope[0] <= at < e.scope[1]]
        best = min(near, key=lambda each: each.scope[1] - each.scope[0], default=None)
        if best is None or best not in chosen or any(begin <= at < end for begin, end in places):
            continue
        edits.append((*match.span(), _write(best.kind, is_const=bool(match[1] or match[3]))))
        top = _ON_TOP.search(best.kind)
        marks = re.sub(r"[^*&]", "", top[0]) if top else ""
        edits += [(at, at, marks) for at in _find_further(text, match.end()) if marks]
    return _apply(text, edits)


def _drop_definition(
    text: str, place: tuple[int, int], known: Sequence[_Alias], chosen: Sequence[_Alias]
) -> tuple[int, int, str]:
    """Return what stays of a statement: its lines, and the names that are not written out."""
    others = (each for each in known if each.place == place and each not in chosen)
    kept = " ".join(f"using {each.name} = {each.kind};" for each in others)
    return (*place, kept + "\n" * text.count("\n", *place))


def _write(kind: str, *, is_const: bool) -> str:
    """Return a type in place of its name: const before the name of a pointer is the pointer's."""
    top = _ON_TOP.search(kind)
    if not is_const or (top and ("&" in top[0] or "const" in top[0])):
        return kind
    if top is not None:
        return f"{kind} const"
    return kind if re.search(r"\bconst\b", kind) else f"const {kind}"


def _find_further(text: str, start: int) -> list[int]:
    """Return where the further variables begin that a statement declares from its type on."""
    stop = text.find(";", start)
    parts = _split(text[start:stop]) if stop >= 0 else []
    named = [re.match(r"\s*(?=\**\s*[A-Za-z_]\w*\s*(?:=|\[|$))", part) for part in parts]
    if len(parts) < 2 or not all(named):
        return []
    places, at = [], start
    for part, match in zip(parts, named, strict=True):
        places.append(at + (match.end() if match else 0))
        at += len(part) + 1
    return places[1:]


def _split(text: str) -> list[str]:
    """Return what stands between the commas outside of parentheses; nothing where one is open."""
    depth, parts, begin = 0, list[str](), 0
    for place, letter in enumerate(text):
        is_arrow = text[max(place - 1, 0) : place + 1] == "->"
        depth += (letter in "([{<") - (letter in ")]}>" and not is_arrow)
        if depth < 0:
            return []
        if letter == "," and not depth:
            parts.append(text[begin:place])
            begin = place + 1
    return [] if depth else [*parts, text[begin:]]


def _apply(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    parts, end = list[str](), 0
    for begin, after, new in sorted(edits):
        parts += [text[end:begin], new]
        end = after
    return "".join([*parts, text[end:]])
