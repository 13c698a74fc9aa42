"""The form in which an expert reviews a session: Markdown, with a YAML block for each answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel

from kernelkb.errors import Problem
from kernelkb.loading.located import Loc, Marks, locate_problem, parse_yaml
from kernelkb.model.base import Record
from kernelkb.model.review import Judgement, Remarks, ReviewForm

M = TypeVar("M", bound=BaseModel)

_FRONT_MATTER = re.compile(r"\A---\n(.*?\n)---\n", re.DOTALL)


class Prose(NamedTuple):
    """What a person reads in a form, each line without a line break."""

    head: Sequence[str]
    sections: Sequence[Sequence[str]]
    """One for each judgement, its title first."""
    tail: Sequence[str]


class FormHeader(Record):
    """The head of a form."""

    session: str
    generated: str
    """A hash of all that follows: as long as it fits, nobody has filled in anything."""


class ParsedForm(NamedTuple):
    """A form, and where each part of it stands."""

    form: ReviewForm
    marks: Marks
    """By place in the form, such as ``("judgements", 0, "corrections", 1, "value")``."""
    problems: list[Problem]


def format_review_form(form: ReviewForm, prose: Prose) -> str:
    """Return the text of a form; ``load`` gives the form back, whatever the prose says."""
    lines = [*prose.head]
    for judgement, section in zip(form.judgements, prose.sections, strict=True):
        lines += ["", *section, "", *_format_yaml_block(judgement)]
    lines += ["", *prose.tail, "", *_format_yaml_block(form.remarks), ""]
    body = "\n".join(lines)
    front = format_yaml({"session": form.session, "generated": _hash(body)})
    return f"---\n{front}---\n{body}"


def is_unmodified(text: str) -> bool:
    """Say whether a form is as it was written, so that nothing is lost with it."""
    head = _FRONT_MATTER.match(text)
    if not head:
        return False
    front, _, problems = parse_yaml(head[1], FormHeader, "")
    return not problems and front is not None and front.generated == _hash(text[head.end() :])


def parse_review_form(text: str, display_path: str) -> ParsedForm:
    """Read a form.

    Args:
        text: The file's.
        display_path: The path to print in complaints.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    head = _FRONT_MATTER.match(text)
    if not head:
        said = "begins without its head; kb session submit writes the form"
        return ParsedForm(ReviewForm(session=""), {}, [locate_problem(display_path, {}, (), said)])
    front, _, problems = parse_yaml(head[1], FormHeader, display_path, 1)
    found = _FormReader(display_path, problems)
    for below, block in _find_yaml_blocks(text):
        found.read_block(block, below)
    form = ReviewForm(
        session=front.session if front else "",
        judgements=tuple(found.judgements),
        remarks=found.remarks or Remarks(),
    )
    return ParsedForm(form, found.marks, found.problems)


class _FormReader:
    """What the blocks of a form hold, as far as it was read."""

    def __init__(self, display_path: str, problems: list[Problem]) -> None:
        self.display_path = display_path
        self.problems = problems
        self.marks: Marks = {}
        self.judgements: list[Judgement] = []
        self.remarks: Remarks | None = None

    def read_block(self, block: str, line_offset: int) -> None:
        """Read one block, which stands below that many lines."""
        if not re.search(r"^decision\s*:", block, re.MULTILINE):
            remarks = self._parse_block(block, line_offset, Remarks, ("remarks",))
            if self.remarks is not None:
                said = "a second block without its decision; only the last block has none"
                self.problems.append(
                    locate_problem(self.display_path, self.marks, ("remarks",), said)
                )
            self.remarks = remarks or Remarks()
            return
        place = ("judgements", len(self.judgements))
        judgement = self._parse_block(block, line_offset, Judgement, place)
        if judgement is None:
            return
        if any(judgement.decision == other.decision for other in self.judgements):
            said = f"decision {judgement.decision} is judged twice; keep one block"
            self.problems.append(
                locate_problem(self.display_path, self.marks, (*place, "decision"), said)
            )
        self.judgements.append(judgement)

    def _parse_block(self, block: str, line_offset: int, model: type[M], place: Loc) -> M | None:
        record, marks, problems = parse_yaml(block, model, self.display_path, line_offset)
        self.problems += problems
        self.marks.update({(*place, *loc): mark for loc, mark in marks.items()})
        return record


def _find_yaml_blocks(text: str) -> list[tuple[int, str]]:
    """Return each block of YAML and how many lines stand above it."""
    from markdown_it import MarkdownIt  # 30 ms, for reading alone

    return [
        (token.map[0] + 1, token.content)
        for token in MarkdownIt("commonmark").parse(text)
        if token.type == "fence" and token.info.strip() == "yaml" and token.map
    ]


def _format_yaml_block(record: Judgement | Remarks) -> list[str]:
    plain = record.model_dump(mode="json", by_alias=True)  # what nobody answered stays, as null
    plain["corrections"] = [
        change.model_dump(mode="json", by_alias=True, exclude_none=True)
        for change in record.corrections
    ]
    text = format_yaml(plain)
    ticks = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, ticks + 1)
    return [f"{fence}yaml", *text.rstrip("\n").split("\n"), fence]


def format_yaml(plain: dict[str, Any]) -> str:
    """Return YAML that reads back equal, whatever its texts hold."""
    text = _dump_yaml(plain, allow_unicode=True)
    # The dumper writes these line breaks as they are, and the loader folds them into spaces.
    return (
        _dump_yaml(plain, allow_unicode=False)
        if any(m in text for m in "\x85\u2028\u2029")
        else text
    )


def _dump_yaml(plain: dict[str, Any], *, allow_unicode: bool) -> str:
    return str(
        yaml.dump(plain, Dumper=_FormDumper, sort_keys=False, allow_unicode=allow_unicode, width=96)
    )


class _FormDumper(yaml.SafeDumper):
    """Quotes what begins like a number: YAML 1.1 reads some of it as one, and we refuse it."""


def _represent_str(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if text[:1] in "+-.0123456789" else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_FormDumper.add_representer(str, _represent_str)


def _hash(body: str) -> str:
    return blake2b(body.encode("utf-8"), digest_size=8).hexdigest()
