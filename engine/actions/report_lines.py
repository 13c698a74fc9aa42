"""Adds the lines of the source to the answers for a report's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernelkb.decide.source_lines import find_lines
from kernelkb.profiles.source_counters import read_source_counters

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules
    from kernelkb.model.recommendation import KernelAnswer
    from kernelkb.model.source_line import LineAnswer
    from kernelkb.sass.counters import SourceCounters

_MAX_DIAGNOSES = 3
_ACCESS = "{access}"
_NOTHING_COUNTED = (
    "the report counts nothing by instruction; ncu --section SourceCounters --import-source yes "
    "records it"
)


def read_all_counters(path: Path, launches: Sequence[int]) -> list[SourceCounters | str]:
    """Return what some launches counted by instruction, each or the reason why there is nothing.

    Args:
        path: A ``.ncu-rep`` file.
        launches: Indices in the file.
    """
    counted = read_source_counters(path, launches)
    return [_NOTHING_COUNTED if one is None else one for one in counted]


def add_source_lines(
    rules: CompiledRules, answer: KernelAnswer, counters: SourceCounters | str
) -> None:
    """Set ``lines`` of the first diagnoses of an answer, or note why there are none."""
    if isinstance(counters, str):
        answer["notes"].append(f"no lines: {counters}")
        return
    matches = [d for d in answer["diagnoses"] if d["verdict"] == "matches"]
    for diagnosis in matches[:_MAX_DIAGNOSES]:
        evidence = rules["line_evidence"].get(diagnosis["bottleneck"], [])
        found = find_lines(counters, evidence)
        diagnosis["lines"] = found
        for fix in diagnosis["fixes"]:
            fix["on_line"] = _describe_change(rules["fixes"][fix["id"]]["on_line"], found)
    answer["notes"] += counters.notes


def _describe_change(words: str | None, answer: LineAnswer) -> str | None:
    """Return the change of a fix on the first line; None where it asks for an access in vain."""
    access = answer["lines"][0]["access"] if answer["lines"] else None
    if words is None or not answer["lines"] or (access is None and _ACCESS in words):
        return None
    return f"line {answer['lines'][0]['at']['line']}: {words.replace(_ACCESS, access or '')}"
