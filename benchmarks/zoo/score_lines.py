"""Scores on the zoo's reports whether the planted flaw is the first cause, and its line the first.

Where a flaw lies was told from the code alone (``pair.place`` in kernel.yaml). Asked are the lines
for its true cause, so that a wrong diagnosis does not count twice.
"""

from __future__ import annotations

import lzma
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.zoo.pairs import list_pairs
from benchmarks.zoo.recordings import PairRecording

from kernelkb.actions.advice.code_location import measure_counted_code
from kernelkb.actions.advice.recommend_report import answer_launch
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.rules import LineEvidenceRow
from kernelkb.decide.source_lines import find_lines
from kernelkb.errors import BadValueError
from kernelkb.model.answers.source_place import LineAnswer
from kernelkb.model.base import Name, Record, Slug
from kernelkb.model.kernels.kernel import FlawPlace
from kernelkb.profiles.launch import ProfiledLaunch, list_raw_names
from kernelkb.profiles.report import load_source_counters, read_report

_TOLERANCE_LINES = 2


class LineScoreRow(Record):
    """How often the first line was right, for the flaws of one cause."""

    bottleneck: Slug
    count: int
    right: int
    """First lines within two of the flaw, or of what it waits for."""


class LineMiss(Record):
    """A flaw whose line was not the first one told."""

    kernel: Name
    bottleneck: Slug
    wanted: int
    told: int | None
    reason: str | None
    """Why no line was told."""


class LineScore(Record):
    """What reports tell of planted flaws: the first cause, and the first line of the true one."""

    cause_count: int
    """Flaws with a report."""
    causes_right: int
    """Of those, the ones whose first cause, with what the machine code shows, is a planted one."""
    rows: tuple[LineScoreRow, ...]
    producer_count: int
    """Flaws that are a wait for something with a line of its own."""
    producers_right: int
    misses: tuple[LineMiss, ...]


class _FlawLine(NamedTuple):
    """Where a flaw lies, and what finds it."""

    place: FlawPlace
    bottleneck: str
    evidence: Sequence[LineEvidenceRow]


class _Case(NamedTuple):
    """A recorded flaw."""

    recording: PairRecording
    causes: Sequence[str]
    line: _FlawLine | None
    """None where it lies in no line, or no counts find its lines."""


class _LineResult(NamedTuple):
    """The lines that were told of a flaw that has one."""

    kernel: str
    line: _FlawLine
    told: LineAnswer


class _Result(NamedTuple):
    """What was told of a case."""

    is_cause_first: bool
    line: _LineResult | None


def score_lines(recordings: Iterable[PairRecording], reports: Path) -> LineScore:
    """Score the lines of every recorded flaw that has one.

    Args:
        recordings: Pairs, with their reports' names.
        reports: Folder of compressed reports, one folder for each device.

    Raises:
        BadValueError: None of the reports is there.
        KbError: A report cannot be read.
    """
    groups: dict[Path, list[_Case]] = defaultdict(list)
    for case in _list_cases(recordings):
        path = reports / case.recording.device / case.recording.report
        if case.recording.report and path.is_file():
            groups[path].append(case)
    if not groups:
        raise BadValueError(f"no reports of the zoo in {reports}")
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda group: _find_all(*group), groups.items())
        return _summarize([row for rows in found for row in rows])


def _list_cases(recordings: Iterable[PairRecording]) -> Iterable[_Case]:
    pairs = {name: kernel.pair for name, kernel in list_pairs().items()}
    for recording in recordings:
        pair = pairs.get(recording.kernel)
        if pair is not None and pair.bottlenecks:
            line = _find_flaw_line(pair.place, pair.bottlenecks)
            yield _Case(recording, pair.bottlenecks, line)


def _find_flaw_line(place: FlawPlace | None, causes: Sequence[str]) -> _FlawLine | None:
    evidence = load_compiled_rules()["line_evidence"]
    cause = next((name for name in causes if name in evidence), None)
    return None if place is None or cause is None else _FlawLine(place, cause, evidence[cause])


def _find_all(packed: Path, cases: Sequence[_Case]) -> list[_Result]:
    with TemporaryDirectory() as folder:
        report = Path(folder) / packed.stem
        report.write_bytes(lzma.decompress(packed.read_bytes()))
        launches = read_report(report, list_raw_names(load_compiled_rules()))
        return [_find_one(report, launches[case.recording.launch], case) for case in cases]


def _find_one(report: Path, launch: ProfiledLaunch, case: _Case) -> _Result:
    counters = load_source_counters(report, case.recording.launch)
    code = measure_counted_code(counters)
    answer = answer_launch(load_compiled_rules(), launch, 0, code, None)
    told = [one["bottleneck"] for one in answer["diagnoses"] if one["verdict"] == "matches"]
    is_first = bool(told) and told[0] in case.causes
    if case.line is None:
        return _Result(is_first, None)
    lines: LineAnswer = {"lines": [], "reason": "the report counts nothing by instruction"}
    if counters is not None:
        lines = find_lines(counters, case.line.evidence)
    return _Result(is_first, _LineResult(case.recording.kernel, case.line, lines))


def _summarize(found: Sequence[_Result]) -> LineScore:
    by_cause: dict[str, list[_LineResult]] = defaultdict(list)
    lines = [one.line for one in found if one.line is not None]
    for one in lines:
        by_cause[one.line.bottleneck].append(one)
    waits = [one for one in lines if one.line.place.producers]
    return LineScore(
        cause_count=len(found),
        causes_right=sum(one.is_cause_first for one in found),
        rows=tuple(
            LineScoreRow(bottleneck=name, count=len(rows), right=sum(map(_is_right, rows)))
            for name, rows in sorted(by_cause.items())
        ),
        producer_count=len(waits),
        producers_right=sum(map(_names_producer, waits)),
        misses=tuple(_describe_miss(one) for one in lines if not _is_right(one)),
    )


def _is_right(one: _LineResult) -> bool:
    """Return whether the first line is that of the flaw, or of what it waits for.

    Of a function that was inlined, both its line and that of its call are told.
    """
    place = one.line.place
    return _is_near(one.told, (place.line, *place.also, *place.producers))


def _names_producer(one: _LineResult) -> bool:
    return _is_near(one.told, one.line.place.producers)


def _is_near(told: LineAnswer, lines: Iterable[int]) -> bool:
    if not told["lines"]:
        return False
    first = told["lines"][0]
    named = [place["line"] for place in (first["at"], first["called_at"]) if place]
    return any(abs(one - line) <= _TOLERANCE_LINES for one in named for line in lines)


def _describe_miss(one: _LineResult) -> LineMiss:
    lines = one.told["lines"]
    return LineMiss(
        kernel=one.kernel,
        bottleneck=one.line.bottleneck,
        wanted=one.line.place.line,
        told=lines[0]["at"]["line"] if lines else None,
        reason=one.told["reason"],
    )
