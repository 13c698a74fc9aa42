"""Reads and checks the code of fixes: ``fixes/code/<id of the fix>.cu``.

A file begins with the lines ``// fix: ID``, ``// arch: TARGET ...`` and ``// source: ID``. It is no
part of the loaded knowledge and of its hash: no decision depends on it, and every start of kb
would have to read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from kernelkb.errors import KnowledgeError, Problem, did_you_mean
from kernelkb.loading.knowledge import format_path
from kernelkb.loading.located import (
    FILE_START,
    Marks,
    list_problems,
    locate_problem,
    make_problem,
    read_located_text,
)
from kernelkb.model.entries.fix import FixCode
from kernelkb.model.entries.knowledge import Knowledge

CODE_FOLDER = "fixes/code"
"""Below a knowledge folder."""
_HEADER = {
    "fix": "// fix: xor-swizzle",
    "arch": "// arch: sm_80 sm_90a",
    "source": "// source: kernelkb-judgement",
}
"""An example of each line of the header, in their order."""
_SIDES = ("before", "after")


def read_fix_code(fix: str, folders: Iterable[Path]) -> FixCode | None:
    """Return the code of a fix; None if no folder has any.

    Args:
        fix: Its id.
        folders: Knowledge folders; the first one that has the file counts.

    Raises:
        KnowledgeError: The file cannot be read, or its header is wrong.
    """
    for folder in folders:
        path = folder / CODE_FOLDER / f"{fix}.cu"
        if path.is_file():
            code, _, problems = _read_file(path)
            if code is None:
                raise KnowledgeError(problems)
            return code
    return None


def find_fix_code_problems(folder: Path, knowledge: Knowledge) -> list[Problem]:
    """Return every problem of the code in a knowledge folder.

    Args:
        folder: A knowledge folder.
        knowledge: What the headers may name.
    """
    known = {
        "fix": {fix.id for family in knowledge.families for fix in family.fixes},
        "source": {source.id for source in knowledge.bibliography.sources},
    }
    problems: list[Problem] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        inside = path.parent == folder / CODE_FOLDER
        if inside and path.suffix == ".cu":
            problems += _find_file_problems(path, known)
        elif path.suffix == ".cu" or folder / CODE_FOLDER in path.parents:
            text = f"not the code of a fix, which is {CODE_FOLDER}/<id of the fix>.cu"
            problems.append(make_problem(format_path(path), FILE_START, (), text))
    return problems


def _find_file_problems(path: Path, known: dict[str, set[str]]) -> Iterator[Problem]:
    code, marks, problems = _read_file(path)
    yield from problems
    if code is None:
        return
    shown = format_path(path)
    for key, name in (("fix", code.fix), ("source", code.source)):
        if name not in known[key]:
            text = f"unknown {key} {name!r}{did_you_mean(name, known[key])}"
            yield locate_problem(shown, marks, (key,), text)
    if code.fix != path.stem:
        text = f"{code.fix!r} must equal the file's name, {path.stem!r}"
        yield locate_problem(shown, marks, ("fix",), text)


def _read_file(path: Path) -> tuple[FixCode | None, Marks, list[Problem]]:
    """Return the record or None, the position of each value of the header, every problem."""
    shown = format_path(path)
    text, problems = read_located_text(path, shown)
    if text is None:
        return None, {}, problems
    fields, marks, problems = _parse_header(text, shown)
    for side in _SIDES:
        if not re.search(rf"^namespace {side} \{{", text, re.MULTILINE):
            missing = f"no line begins with `namespace {side} {{`"
            problems.append(make_problem(shown, FILE_START, (side,), missing))
    if problems:
        return None, marks, problems
    try:
        return FixCode.model_validate({**fields, "text": text}), marks, []
    except ValidationError as error:
        return None, marks, list_problems(error, shown, marks)


def _parse_header(text: str, shown: str) -> tuple[dict[str, Any], Marks, list[Problem]]:
    """Return the values of the header, their positions, and a problem for each other line."""
    fields: dict[str, Any] = {}
    marks: Marks = {}
    problems: list[Problem] = []
    lines = [*text.split("\n"), *("" for _ in _HEADER)]
    for at, (key, example) in enumerate(_HEADER.items()):
        words = list(re.finditer(r"\S+", lines[at]))[2:]
        if not lines[at].startswith(f"// {key}: ") or not words:
            text = f"this line must be like `{example}`"
            problems.append(make_problem(shown, _make_mark(at, 0), (key,), text))
            continue
        values = [word[0] for word in words]
        fields[key] = tuple(values) if key == "arch" else " ".join(values)
        marks[(key,)] = _make_mark(at, words[0].start())
        marks.update({(key, i): _make_mark(at, word.start()) for i, word in enumerate(words)})
    return fields, marks, problems


def _make_mark(line: int, column: int) -> yaml.Mark:
    return yaml.Mark("", 0, line, column, None, 0)
