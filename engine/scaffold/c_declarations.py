"""The functions that C text defines and declares, with what stands around their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kernelkb.scaffold.brackets import find_bracket_end, split_at_commas

_HEAD_END = re.compile(r"[;{}]")
_TOKEN = re.compile(r'\s*("\w+"|\w+|\S)')
_ATTRIBUTE_WORDS = re.compile(r"__\w+__|alignas|noexcept|decltype|requires|throw")
_NOT_A_FUNCTION = re.compile(r"=|\btypedef\b|\busing\b")


class Declaration(NamedTuple):
    """One function."""

    name: str
    parameters: str
    body: str
    """Empty where it is only declared."""
    returns: str
    scope: str
    template: tuple[str, ...]
    max_threads: str | None
    is_extern: bool
    """``extern "C"``, and no kernel."""
    is_global: bool


def iter_declarations(text: str, scope: str = "", *, extern: bool = False) -> Iterator[Declaration]:
    """Yield the functions of bare C text, outside and inside of namespaces, not of classes."""
    start = 0
    while (end := _HEAD_END.search(text, start)) is not None:
        head, start = text[start : end.start()].strip(), end.end()
        if end[0] == "}":
            continue
        after = find_bracket_end(text, end.start()) if end[0] == "{" else start
        inside = text[end.end() : after - 1]
        space = re.fullmatch(r"(?:inline\s+)?namespace(?:\s+([\w:]+))?", head)
        if end[0] == "{" and (space or re.fullmatch(r'extern\s+"C"', head)):
            inner = f"{scope}{space[1]}::" if space and space[1] else scope
            yield from iter_declarations(inside, inner, extern=extern or space is None)
        else:
            found = _parse_declaration(
                head, text[end.start() : after] if end[0] == "{" else "", scope, extern
            )
            yield from [found] if found else []
        start = after


def _parse_declaration(head: str, body: str, scope: str, extern: bool) -> Declaration | None:
    template, head = _split_template(head)
    if _NOT_A_FUNCTION.search(re.sub(r"\(.*", "", head, flags=re.DOTALL)):
        return None
    words, groups = _tokenize_head(head)
    bounds = [text for name, text in groups if name == "__launch_bounds__"]
    named = [one for one in groups if not _ATTRIBUTE_WORDS.fullmatch(one[0])]
    if not named:
        return None
    name, parameters = named[-1]
    if not words and name != "PYBIND11_MODULE":
        return None
    is_global = "__global__" in words
    returns = words[-1] if words else ""
    return Declaration(
        name,
        parameters,
        body,
        returns,
        scope,
        template,
        next(iter(split_at_commas(bounds[0])), None) if bounds else None,
        is_extern=(extern or '"C"' in words) and not is_global,
        is_global=is_global,
    )


def _split_template(head: str) -> tuple[tuple[str, ...], str]:
    """Take ``template <...>`` off; return the names of its parameters, and the rest."""
    found = re.match(r"template\s*(?=<)", head)
    if found is None:
        return (), head
    end = find_bracket_end(head, found.end())
    inside = head[found.end() + 1 : end - 1]
    names = [re.findall(r"\w+", one.partition("=")[0])[-1:] for one in split_at_commas(inside)]
    return tuple(name for each in names for name in each), head[end:].strip()


def _tokenize_head(head: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Return a head's words before its last parentheses, and each name with its parentheses."""
    words: list[str] = []
    groups: list[tuple[str, str]] = []
    place, trailing = 0, 0
    while (found := _TOKEN.match(head, place)) is not None:
        word, place = found[1], found.end()
        if word == "(":
            place = find_bracket_end(head, found.start(1))
            continue
        opening = re.compile(r"\s*\(").match(head, place)
        if opening is None or not re.fullmatch(r"\w+", word):
            words.append(word)
            continue
        after = find_bracket_end(head, opening.end() - 1)
        groups.append((word, head[opening.end() : after - 1]))
        place = after
        if not _ATTRIBUTE_WORDS.fullmatch(word):
            trailing = len(words)
    return words[:trailing], groups
