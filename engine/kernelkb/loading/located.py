"""Validates one YAML file against a record; every problem has its line and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from kernelkb.errors import Problem, did_you_mean
from kernelkb.model.base import list_boolean_keys, list_known_keys
from kernelkb.safety.workspace import read_text

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


M = TypeVar("M", bound=BaseModel)
_TEXT_NUMBER = re.compile(r"^([-+]?\d+)(\.\d*)?[eE]([-+]?)(\d+)$")
_OTHER_BASE = re.compile(r"^(0\d+|[-+]?\d+(:[0-5]?\d)+(\.\d*)?)$")
_MAX_DEPTH = 100
_NESTED_MARKS = re.compile(rf"(?:[-?:][ \t]+){{{_MAX_DEPTH}}}")
"""Lists in lists and keys that are mappings, in one line."""
"""Nesting levels; no record comes near, and deep nesting overflows the YAML parser's stack."""
_MAX_DIGITS = 100
"""Digits of a whole number; Python refuses to read more than 4300."""
_CUT = re.compile(r"\s*(?<=\s)(#[^\s#]\S*)")
"""A comment without a space behind its sign."""
_BARE_PERCENT = re.compile(r"^[-+]?\d+(\.\d+)?\s*%$")


def read_yaml(
    path: Path, model: type[M], display_path: str | None = None
) -> tuple[M | None, Marks, list[Problem]]:
    """Read one YAML file into ``model``.

    Args:
        path: A UTF-8 file.
        model: The record class to validate against.
        display_path: The path to print in problems; by default ``path``.

    Returns:
        The record or None, the position of each value in the file, every problem.
    """
    shown = display_path or str(path)
    text, problems = read_located_text(path, shown)
    if text is None:
        return None, {}, problems
    record, marks, problems = _parse_file(text, model)
    return record, marks, [problem._replace(path=shown) for problem in problems]


def read_located_text(path: Path, shown: str) -> tuple[str | None, list[Problem]]:
    """Return the text of a UTF-8 file, or None and the problem.

    Args:
        path: The file.
        shown: The path to print in problems.
    """
    try:
        return read_text(path), []
    except UnicodeDecodeError as error:
        return None, [make_problem(shown, FILE_START, (), f"not UTF-8 text: {error.reason}")]
    except OSError as error:
        return None, [make_problem(shown, FILE_START, (), f"cannot be read: {error.strerror}")]


@lru_cache(maxsize=256)
def _parse_file(text: str, model: type[M]) -> tuple[M | None, Marks, list[Problem]]:
    """Parse a file that was read, unless this process has parsed the same text before.

    A review is previewed on knowledge that is loaded three times, and a server loads it again
    after each edit of one file. Records are immutable, and no caller changes the marks.
    """
    return parse_yaml(text, model, "")


def parse_yaml(
    text: str,
    model: type[M],
    display_path: str,
    line_offset: int = 0,
    implied_values: Mapping[str, Any] | None = None,
) -> tuple[M | None, Marks, list[Problem]]:
    """Like ``read_yaml``, for text: a whole file, or a YAML block inside of one.

    Args:
        text: The YAML.
        model: The record class to validate against.
        display_path: The path to print in problems.
        line_offset: Number of lines of the file above the text.
        implied_values: Values of keys that the text must leave out, as its section gives them.

    Returns:
        The record or None, the position of each value in the file, every problem.
    """
    marks: Marks = {}
    record, problems = _validate_text(text, model, display_path, marks, implied_values or {})
    if line_offset:
        problems = [problem._replace(line=problem.line + line_offset) for problem in problems]
        marks = {
            loc: yaml.Mark("", 0, mark.line + line_offset, mark.column, None, 0)
            for loc, mark in marks.items()
        }
        marks.setdefault((), yaml.Mark("", 0, line_offset, 0, None, 0))
    return record, marks, problems


def _validate_text(
    text: str, model: type[M], shown: str, marks: Marks, implied_values: Mapping[str, Any]
) -> tuple[M | None, list[Problem]]:
    try:
        if _is_too_deep(text):
            return None, [
                make_problem(shown, FILE_START, (), f"nested deeper than {_MAX_DEPTH} levels")
            ]
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
        problems = [
            make_problem(shown, mark, where, message)
            for mark, where, message in _index_and_check(node, (), marks, text.split("\n"))
        ]
        problems += [
            locate_problem(
                shown, marks, (key,), f"{key} is given by the section that this is in; leave it out"
            )
            for key in implied_values
            if (key,) in marks
        ]
        if problems:
            return None, problems
        data = _construct_document(node)
        return model.model_validate(
            {**data, **implied_values} if isinstance(data, dict) else data
        ), []
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or FILE_START
        return None, [make_problem(shown, mark, (), error.problem or "not YAML")]
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        before = text.encode()[: getattr(error, "position", 0)].decode(errors="ignore")
        mark = yaml.Mark("", 0, before.count("\n"), len(before) - before.rfind("\n") - 1, None, 0)
        return None, [make_problem(shown, mark, (), f"not YAML: {reason}")]
    except ValidationError as error:
        return None, list_problems(error, shown, marks)
    except ValueError as error:  # such as !!int of what is none
        return None, [make_problem(shown, FILE_START, (), f"a value cannot be read: {error}")]


def _is_too_deep(text: str) -> bool:
    """Whether the text nests so deep that composing it could overflow the parser's stack."""
    has_depth = " " * _MAX_DEPTH in text or _NESTED_MARKS.search(text)
    if text.count("[") + text.count("{") < _MAX_DEPTH and not has_depth:
        return False
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                return True
    except yaml.YAMLError:
        return False  # composing it reports the same error
    return False


def _construct_document(node: yaml.Node | None) -> Any:
    loader = yaml.CSafeLoader("")
    try:
        return loader.construct_document(node) if node else {}
    finally:
        loader.dispose()


def _index_and_check(
    node: yaml.Node | None, loc: Loc, marks: Marks, lines: list[str]
) -> list[tuple[yaml.Mark, Loc, str]]:
    """Fill ``marks`` with every value's position; list duplicate keys, aliases, misread scalars."""
    mistakes: list[tuple[yaml.Mark, Loc, str]] = []
    seen: set[int] = set()

    def visit(node: yaml.Node | None, loc: Loc) -> None:
        if node is None:
            return
        if id(node) in seen:
            mistakes.append(
                (
                    marks.get(loc, node.start_mark),
                    loc,
                    "YAML aliases are not allowed; write the value out",
                )
            )
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                here = (*loc, str(key.value))
                if here in marks:
                    mistakes.append((key.start_mark, here, f"key {key.value!r} appears twice"))
                marks[here] = key.start_mark
                visit(value, here)
        elif isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                marks[(*loc, position)] = item.start_mark
                visit(item, (*loc, position))
        elif isinstance(node, yaml.ScalarNode) and not node.style:
            text = _find_scalar_mistake(node, loc, lines)
            mistakes.extend([(node.start_mark, loc, text)] if text else ())

    visit(node, loc)
    return mistakes


def _find_scalar_mistake(node: yaml.ScalarNode, loc: Loc, lines: list[str]) -> str | None:
    """Return a message for a plain scalar that says something else than it seems to say."""
    tag = node.tag.rpartition(":")[2]
    misread = _find_misread_scalar(node.value, tag) or _find_misplaced_boolean(loc, tag)
    return misread or _find_cut_text(node, lines)


def _find_cut_text(node: yaml.ScalarNode, lines: list[str]) -> str | None:
    """Return a message for a text that a word such as ``#pragma`` ends; None if none does."""
    end = node.end_mark
    is_text = node.tag.endswith(":str") and end.line < len(lines)
    word = _CUT.match(lines[end.line], end.column) if is_text else None
    return f"the text ends before {word[1]}, which begins a comment; quote it" if word else None


def _find_misplaced_boolean(loc: Loc, read_as: str) -> str | None:
    """Return a message for a boolean where a number or text belongs, which pydantic accepts."""
    if read_as != "bool":
        return None
    key = next((part for part in reversed(loc) if isinstance(part, str)), "")
    if key in list_boolean_keys():
        return None
    return f"{key} is not a boolean; write 1 or 0 for a number, and quote a word"


def _find_misread_scalar(word: str, read_as: str) -> str | None:
    """Return a message for a plain scalar that YAML 1.1 reads as another type; None if correct."""
    if read_as == "bool" and word.lower() not in ("true", "false"):
        return f"YAML reads a bare {word} as a boolean; write true, false or '{word}'"
    if read_as == "timestamp" and not _is_calendar_date(word):
        return f"{word} is not a calendar date; write year-month-day"
    if read_as == "str" and (parts := _TEXT_NUMBER.match(word)):
        whole, fraction, sign, exponent = parts.groups()
        return f"YAML reads {word} as text; write {whole}{fraction or '.0'}e{sign or '+'}{exponent}"
    if read_as == "int" and len(word) > _MAX_DIGITS:
        return f"a number of {len(word)} digits; no value needs more than {_MAX_DIGITS}"
    if read_as in ("int", "float") and _OTHER_BASE.match(word):
        return f"YAML reads {word} in another base; write it without leading zeros or colons"
    if _BARE_PERCENT.match(word):
        return f"shares are plain numbers: write {float(word.rstrip('% ')) / 100:g}, not {word}"
    if read_as == "float" and word.lower().lstrip("+-") in (".inf", ".nan"):
        return f"{word} cannot be a limit or a value; leave it out"
    return None


def _is_calendar_date(word: str) -> bool:
    try:
        yaml.safe_load(word)
    except ValueError:
        return False
    return True
