"""Turns what pydantic found in a YAML file into problems with their line and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from functools import cache
from itertools import islice
from typing import Any

import yaml
from pydantic import ValidationError

from kernelkb.errors import Problem, did_you_mean
from kernelkb.model.base import list_known_keys

Loc = tuple[str | int, ...]
Marks = dict[Loc, yaml.Mark]

FILE_START = yaml.Mark("", 0, 0, 0, None, 0)
_MAX_PROBLEMS = 100
"""Problems of one file that are worded: each takes a search for a similar key."""


def list_problems(error: ValidationError, shown: str, marks: Marks) -> list[Problem]:
    """Return the problems of a file, the first hundred in full.

    Args:
        error: What pydantic found.
        shown: The path to print.
        marks: The position of each value in the file.
    """
    causes = _select_causes(error)

    @cache
    def list_siblings(parent: Loc) -> frozenset[str]:
        return frozenset(str(key[-1]) for key in marks if key and key[:-1] == parent)

    problems = [
        _translate_error(shown, item, marks, list_siblings)
        for item in islice(causes, _MAX_PROBLEMS)
    ]
    if len(causes) > _MAX_PROBLEMS:
        more = f"{len(causes) - _MAX_PROBLEMS} more problems, not listed"
        problems.append(make_problem(shown, FILE_START, (), more))
    return problems


def locate_problem(display_path: str, marks: Marks, loc: Loc, message: str) -> Problem:
    """Return a problem at the position of ``loc``, or of its nearest parent that has a mark."""
    while loc and loc not in marks:
        loc = loc[:-1]
    return make_problem(display_path, marks.get(loc, FILE_START), loc, message)


def make_problem(shown: str, mark: yaml.Mark, loc: Loc, text: str) -> Problem:
    """Return a problem at a position; ``loc`` names the value."""
    return Problem(shown, mark.line + 1, mark.column + 1, ".".join(map(str, loc)) or "file", text)


def _select_causes(error: ValidationError) -> list[Any]:
    """Return pydantic's errors without "too short" about lists whose items are invalid."""
    items = error.errors()
    above = {loc[:depth] for item in items for loc in (item["loc"],) for depth in range(len(loc))}
    return [item for item in items if item["type"] != "too_short" or item["loc"] not in above]


def _translate_error(
    shown: str, item: Any, marks: Marks, list_siblings: Callable[[Loc], Set[str]]
) -> Problem:
    where: Loc = ()
    for part in item["loc"]:  # skip union tags, stop short of a key that the file lacks
        where = (*where, part) if (*where, part) in marks else where
    text = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        absent = list_known_keys() - list_siblings(where[:-1])
        text = f"unknown key{did_you_mean(str(item['loc'][-1]), absent)}"
    elif item["type"] == "missing":
        text = f"required key {item['loc'][-1]!r} is missing"
    elif item["type"] == "union_tag_not_found":
        text = f"required key {item['ctx']['discriminator']} is missing"
    elif item["type"] == "string_pattern_mismatch":
        text = f"{item['input']!r} does not fit {item['ctx']['pattern']}"
    elif item["type"] == "literal_error":
        offered = re.findall(r"'([^']*)'", item["ctx"]["expected"])
        text += did_you_mean(str(item["input"]), offered)
    elif item["type"] == "union_tag_invalid":
        where, text = _explain_unknown_tag(item["ctx"], where, marks)
    return make_problem(shown, marks.get(where, FILE_START), where, text)


def _explain_unknown_tag(context: Any, where: Loc, marks: Marks) -> tuple[Loc, str]:
    """Return where a union's tag is unknown, and a message that lists the tags."""
    key, tag, offered = (
        context["discriminator"].strip("'"),
        context["tag"],
        context["expected_tags"],
    )
    near = did_you_mean(tag, re.findall(r"'([^']*)'", offered))
    where = (*where, key) if (*where, key) in marks else where
    return where, f"unknown {key} {tag!r}{near or f'; there are {offered}'}"
