"""Adds the lines of the source to the answers for a report's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernelkb.decide.past_changes import find_similar_cases
from kernelkb.decide.source_lines import find_lines
from kernelkb.profiles.source_counters import read_source_counters
from kernelkb.sass.static_facts import measure_code

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules
    from kernelkb.model.answers.recommendation import Advice, Diagnosis, KernelAnswer, Level
    from kernelkb.model.answers.source_place import LineAnswer
    from kernelkb.profiles.reader_process import ReaderProcess
    from kernelkb.sass.counters import SourceCounters

_MAX_DIAGNOSES = 3
_MAX_SIMILAR = 3
_LEVEL_BELOW_LINES: Level = "L3"
_LEVEL_OF_LINES: Level = "L4"
_ACCESS = "{access}"
_NOTHING_COUNTED = (
    "the report counts nothing by instruction; ncu --section SourceCounters --import-source yes "
    "records it"
)


def read_all_counters(
    path: Path, launches: Sequence[int], reader: ReaderProcess | None = None
) -> list[SourceCounters | str]:
    """Return what some launches counted by instruction, each or the reason why there is nothing.

    Args:
        path: A ``.ncu-rep`` file.
        launches: Indices in the file; of all but the first nothing is read that has no lines.
        reader: A process for this and other calls; by default one for this call.
    """
    counted = read_source_counters(path, launches, without_lines=1, reader=reader)
    return [_NOTHING_COUNTED if one is None else one for one in counted]


def measure_counted_code(counters: SourceCounters | str | None) -> dict[str, float]:
    """Return the metrics of the machine code that was counted; empty where nothing was."""
    if counters is None or isinstance(counters, str):
        return {}
    return measure_code([counters.function])


def add_source_lines(
    rules: CompiledRules, answer: KernelAnswer, counters: SourceCounters | str
) -> KernelAnswer:
    """Return an answer with ``lines`` of its first diagnoses, or a note why there are none."""
    if isinstance(counters, str):
        return {**answer, "notes": [*answer["notes"], f"no lines: {counters}"]}
    matches = [d for d in answer["diagnoses"] if d["verdict"] == "matches"]
    located = {
        one["bottleneck"]: _locate_diagnosis(rules, one, counters)
        for one in matches[:_MAX_DIAGNOSES]
    }
    with_lines: KernelAnswer = {
        **answer,
        "diagnoses": [located.get(one["bottleneck"], one) for one in answer["diagnoses"]],
        "notes": [*answer["notes"], *counters.notes],
        "similar": answer["similar"] or find_similar_cases(answer, rules["cases"], _MAX_SIMILAR),
    }
    if any(one["lines"] and one["lines"]["lines"] for one in located.values()):
        return _raise_evidence_level(rules, with_lines)
    return with_lines


def _locate_diagnosis(
    rules: CompiledRules, diagnosis: Diagnosis, counters: SourceCounters
) -> Diagnosis:
    found = find_lines(counters, rules["line_evidence"].get(diagnosis["bottleneck"], []))
    fixes: list[Advice] = [
        {**fix, "on_line": _describe_change(rules["fixes"][fix["id"]]["on_line"], found)}
        for fix in diagnosis["fixes"]
    ]
    return {**diagnosis, "lines": found, "fixes": fixes}


def _raise_evidence_level(rules: CompiledRules, answer: KernelAnswer) -> KernelAnswer:
    """Leave out of the conclusions what counters by line are lacking for: here they are."""
    if answer["evidence_level"] != _LEVEL_BELOW_LINES:
        return answer
    lacking = rules["levels"][f"cuda/{_LEVEL_BELOW_LINES}"]["cannot"]
    can, cannot = answer["conclusions"]["can"], answer["conclusions"]["cannot"]
    return {
        **answer,
        "conclusions": {"can": can, "cannot": [text for text in cannot if text not in lacking]},
        "evidence_level": _LEVEL_OF_LINES,
    }


def _describe_change(words: str | None, answer: LineAnswer) -> str | None:
    """Return the change of a fix on the first line; None where it asks for an access in vain."""
    access = answer["lines"][0]["access"] if answer["lines"] else None
    if words is None or not answer["lines"] or (access is None and _ACCESS in words):
        return None
    return f"line {answer['lines'][0]['at']['line']}: {words.replace(_ACCESS, access or '')}"


def read_first_counters(report: Path | None) -> SourceCounters | str | None:
    """Return what the first launch of a report counted by instruction; None without a report."""
    return None if report is None else read_all_counters(report, [0])[0]
