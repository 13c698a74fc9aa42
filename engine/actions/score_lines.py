"""Scores on the zoo's reports whether diagnoses point at the line of the planted flaw.

Where a flaw lies was told from the code alone (``pair.place`` in kernel.yaml). Asked are the lines
for its true cause, so that a wrong diagnosis does not count twice; see ``kb score``.
"""

from __future__ import annotations

import lzma
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from kernelkb.actions.rules_cache import load_compiled_rules
from kernelkb.actions.zoo_pairs import list_pairs
from kernelkb.decide.rules import LineEvidenceRow
from kernelkb.decide.source_lines import find_lines
from kernelkb.errors import BadValueError
from kernelkb.model.kernel import FlawPlace
from kernelkb.model.source_line import LineAnswer
from kernelkb.model.zoo import LineMiss, LineScore, LineScoreRow, PairRecording
from kernelkb.profiles.source_counters import load_source_counters

_TOLERANCE_LINES = 2


class _Case(NamedTuple):
    """A recorded flaw, and what finds its lines."""

    recording: PairRecording
    place: FlawPlace
    bottleneck: str
    evidence: Sequence[LineEvidenceRow]


class _Result(NamedTuple):
    """What was told of a case."""

    case: _Case
    told: LineAnswer


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
    evidence = load_compiled_rules()["line_evidence"]
    pairs = {name: kernel.pair for name, kernel in list_pairs().items()}
    for recording in recordings:
        pair = pairs.get(recording.kernel)
        if pair is None or pair.place is None:
            continue
        cause = next((name for name in pair.bottlenecks if name in evidence), None)
        if cause is not None:
            yield _Case(recording, pair.place, cause, evidence[cause])


def _find_all(packed: Path, cases: Sequence[_Case]) -> list[_Result]:
    with TemporaryDirectory() as folder:
        report = Path(folder) / packed.stem
        report.write_bytes(lzma.decompress(packed.read_bytes()))
        return [_Result(case, _find_one(report, case)) for case in cases]


def _find_one(report: Path, case: _Case) -> LineAnswer:
    counters = load_source_counters(report, case.recording.launch)
    if counters is None:
        return {"lines": [], "reason": "the report counts nothing by instruction"}
    return find_lines(counters, case.evidence)


def _summarize(found: Sequence[_Result]) -> LineScore:
    by_cause: dict[str, list[_Result]] = defaultdict(list)
    for one in found:
        by_cause[one.case.bottleneck].append(one)
    waits = [one for one in found if one.case.place.producers]
    return LineScore(
        rows=tuple(
            LineScoreRow(bottleneck=name, count=len(rows), right=sum(map(_is_right, rows)))
            for name, rows in sorted(by_cause.items())
        ),
        producer_count=len(waits),
        producers_right=sum(map(_names_producer, waits)),
        misses=tuple(_describe_miss(one) for one in found if not _is_right(one)),
    )


def _is_right(one: _Result) -> bool:
    """Return whether the first line is that of the flaw, or of what it waits for.

    Of a function that was inlined, both its line and that of its call are told.
    """
    place = one.case.place
    return _is_near(one.told, (place.line, *place.also, *place.producers))


def _names_producer(one: _Result) -> bool:
    return _is_near(one.told, one.case.place.producers)


def _is_near(told: LineAnswer, lines: Iterable[int]) -> bool:
    if not told["lines"]:
        return False
    first = told["lines"][0]
    named = [first["at"]["line"], *([first["called_at"]] if first["called_at"] else [])]
    return any(abs(one - line) <= _TOLERANCE_LINES for one in named for line in lines)


def _describe_miss(one: _Result) -> LineMiss:
    lines = one.told["lines"]
    return LineMiss(
        kernel=one.case.recording.kernel,
        bottleneck=one.case.bottleneck,
        wanted=one.case.place.line,
        told=lines[0]["at"]["line"] if lines else None,
        reason=one.told["reason"],
    )
