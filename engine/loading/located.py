"""Validate one YAML file and report every complaint at its own line and column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from kernelkb.errors import KnowledgeError, Problem, did_you_mean
from kernelkb.safety.workspace import read_text

M = TypeVar("M", bound=BaseModel)
Loc = tuple[str | int, ...]
Marks = dict[Loc, yaml.Mark]

_TOP = yaml.Mark("", 0, 0, 0, None, 0)
_TEXT_NUMBER = re.compile(r"^([-+]?\d+)(\.\d*)?[eE]([-+]?)(\d+)$")
_OTHER_BASE = re.compile(r"^(0\d+|[-+]?\d+(:[0-5]?\d)+(\.\d*)?)$")
_DEEPEST = 100
_BARE_PERCENT = re.compile(r"^[-+]?\d+(\.\d+)?\s*%$")


def load(path: Path, model: type[M], shown_as: str | None = None) -> M:
    """Read one YAML file into ``model``.

    Args:
        path: The file, UTF-8.
        model: The record it must hold.
        shown_as: The path to print in complaints; the file's own by default.

    Raises:
        KnowledgeError: The file is not YAML, not a ``model``, or says something that YAML would
            quietly misread. Carries every complaint.
    """
    record, _marks, problems = read(path, model, shown_as)
    if problems or record is None:
        raise KnowledgeError(problems)
    return record


def read(
    path: Path, model: type[M], shown_as: str | None = None
) -> tuple[M | None, Marks, list[Problem]]:
    """Like ``load``, but hand back the marks and the complaints instead of raising."""
    shown = shown_as or str(path)
    try:
        text = read_text(path)
    except UnicodeDecodeError as error:
        return None, {}, [_problem(shown, _TOP, (), f"not UTF-8 text: {error.reason}")]
    except OSError as error:
        return None, {}, [_problem(shown, _TOP, (), f"cannot be read: {error.strerror}")]
    return parsed(text, model, shown)


def parsed(
    text: str, model: type[M], shown: str, above: int = 0, implied: Mapping[str, Any] | None = None
) -> tuple[M | None, Marks, list[Problem]]:
    """Like ``read``, for YAML that is a file or stands inside of one.

    Args:
        text: The YAML.
        model: The record it must hold.
        shown: The path to print in complaints.
        above: How many lines of the file stand above the text.
        implied: What its place says already; the text may not say it again.

    Returns:
        The record or None, the place of each value in the file, every complaint.
    """
    marks: Marks = {}
    record, problems = _validated(text, model, shown, marks, implied or {})
    if above:
        problems = [problem._replace(line=problem.line + above) for problem in problems]
        marks = {
            loc: yaml.Mark("", 0, mark.line + above, mark.column, None, 0)
            for loc, mark in marks.items()
        }
        marks.setdefault((), yaml.Mark("", 0, above, 0, None, 0))
    return record, marks, problems


def _validated(
    text: str, model: type[M], shown: str, marks: Marks, implied: Mapping[str, Any]
) -> tuple[M | None, list[Problem]]:
    try:
        if _deep(text):
            return None, [_problem(shown, _TOP, (), "nested deeper than any record is")]
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
        problems = [_problem(shown, m, where, said) for m, where, said in _survey(node, (), marks)]
        problems += [
            at(shown, marks, (key,), f"{key} follows from where this stands; leave it out")
            for key in implied
            if (key,) in marks
        ]
        if problems:
            return None, problems
        data = _construct(node)
        return model.model_validate({**data, **implied} if isinstance(data, dict) else data), []
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or _TOP
        return None, [_problem(shown, mark, (), error.problem or "not YAML")]
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        place = text.encode()[: getattr(error, "position", 0)].decode(errors="ignore")
        mark = yaml.Mark("", 0, place.count("\n"), len(place) - place.rfind("\n") - 1, None, 0)
        return None, [_problem(shown, mark, (), f"not YAML: {said}")]
    except ValidationError as error:
        return None, [_complaint(shown, item, marks) for item in _causes(error)]


def _deep(text: str) -> bool:
    """Say whether a file nests so deep that composing it would end the process."""
    if text.count("[") + text.count("{") < _DEEPEST and " " * _DEEPEST not in text:
        return False
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                return True
    except yaml.YAMLError:
        return False  # composing says what is wrong, and stops where this did
    return False


def _causes(error: ValidationError) -> list[Any]:
    """Drop "too short" about a list whose own items are what is wrong."""
    items = error.errors()
    places = [item["loc"] for item in items]
    return [
        item
        for item in items
        if item["type"] != "too_short"
        or not any(p[: len(item["loc"])] == item["loc"] != p for p in places)
    ]


def at(shown: str, marks: Marks, loc: Loc, message: str) -> Problem:
    """Return a complaint about the value at ``loc``, or about its nearest known parent."""
    while loc and loc not in marks:
        loc = loc[:-1]
    return _problem(shown, marks.get(loc, _TOP), loc, message)


def _problem(shown: str, mark: yaml.Mark, loc: Loc, text: str) -> Problem:
    return Problem(shown, mark.line + 1, mark.column + 1, ".".join(map(str, loc)) or "file", text)


def _construct(node: yaml.Node | None) -> Any:
    loader = yaml.CSafeLoader("")
    try:
        return loader.construct_document(node) if node else {}
    finally:
        loader.dispose()


def _complaint(shown: str, item: Any, marks: Marks) -> Problem:
    where: Loc = ()
    for part in item["loc"]:  # skip union tags, stop short of a key that the file lacks
        where = (*where, part) if (*where, part) in marks else where
    text = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        siblings = {str(key[-1]) for key in marks if key and key[:-1] == where[:-1]}
        text = f"unknown key{_near_key(str(item['loc'][-1]), siblings)}"
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
        where, text = _chosen(item["ctx"], where, marks)
    return _problem(shown, marks.get(where, _TOP), where, text)


def _chosen(context: Any, where: Loc, marks: Marks) -> tuple[Loc, str]:
    """Say which kinds of record there are where one names another kind."""
    key, said, offered = (
        context["discriminator"].strip("'"),
        context["tag"],
        context["expected_tags"],
    )
    near = did_you_mean(said, re.findall(r"'([^']*)'", offered))
    where = (*where, key) if (*where, key) in marks else where
    return where, f"unknown {key} {said!r}{near or f'; there are {offered}'}"


def _near_key(word: str, siblings: set[str]) -> str:
    from kernelkb.loading.keys import known_keys  # walks every record class: only when asked

    return did_you_mean(word, known_keys() - siblings)


def _survey(node: yaml.Node | None, loc: Loc, marks: Marks) -> list[tuple[yaml.Mark, Loc, str]]:
    """Index every node's place, and list what YAML would accept without meaning it."""
    found: list[tuple[yaml.Mark, Loc, str]] = []
    seen: set[int] = set()

    def visit(node: yaml.Node | None, loc: Loc) -> None:
        if node is None:
            return
        if id(node) in seen:
            found.append(
                (marks.get(loc, node.start_mark), loc, "aliases hide things; write it out")
            )
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                here = (*loc, str(key.value))
                if here in marks:
                    found.append((key.start_mark, here, f"key {key.value!r} appears twice"))
                marks[here] = key.start_mark
                visit(value, here)
        elif isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                marks[(*loc, position)] = item.start_mark
                visit(item, (*loc, position))
        elif isinstance(node, yaml.ScalarNode) and not node.style:
            read_as = node.tag.rpartition(":")[2]
            text = _misread(node.value, read_as) or _out_of_place(loc, read_as)
            if text:
                found.append((node.start_mark, loc, text))

    visit(node, loc)
    return found


def _out_of_place(loc: Loc, read_as: str) -> str | None:
    """Say that a truth value stands where a number or text belongs, which pydantic would take."""
    if read_as != "bool":
        return None
    from kernelkb.loading.keys import truth_keys  # walks every record class: only when asked

    key = next((part for part in reversed(loc) if isinstance(part, str)), "")
    if key in truth_keys():
        return None
    return f"{key} is no truth value; write 1 or 0 for a number, and quote a word"


def _misread(word: str, read_as: str) -> str | None:
    """Say what is wrong with a plain scalar that YAML 1.1 reads as something else."""
    if read_as == "bool" and word.lower() not in ("true", "false"):
        return f"YAML reads a bare {word} as a truth value; write true, false or '{word}'"
    if read_as == "timestamp" and not _in_the_calendar(word):
        return f"{word} is no day of the calendar; write year-month-day"
    if read_as == "str" and (parts := _TEXT_NUMBER.match(word)):
        whole, fraction, sign, exponent = parts.groups()
        return f"YAML reads {word} as text; write {whole}{fraction or '.0'}e{sign or '+'}{exponent}"
    if read_as in ("int", "float") and _OTHER_BASE.match(word):
        return f"YAML reads {word} in another base; write it without leading zeros or colons"
    if _BARE_PERCENT.match(word):
        return f"shares are plain numbers: write {float(word.rstrip('% ')) / 100:g}, not {word}"
    if read_as == "float" and word.lower().lstrip("+-") in (".inf", ".nan"):
        return f"nothing can be compared with {word}; leave the value out"
    return None


def _in_the_calendar(word: str) -> bool:
    try:
        yaml.safe_load(word)
    except ValueError:
        return False
    return True
