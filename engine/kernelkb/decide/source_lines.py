"""Finds the lines of source that a bottleneck lies in, and what they access.

A line is told only where it holds a tenth of what is counted, and where four fifths of it have a
line at all; else the reason is told.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.sass.access_patterns import AccessPattern, describe_access, find_access_patterns
from kernelkb.sass.counters import Producer, find_producers
from kernelkb.sass.function import get_folder

if TYPE_CHECKING:
    from kernelkb.decide.rules import LineEvidenceRow
    from kernelkb.model.answers.source_place import (
        AccessedLine,
        CodePlace,
        LineAnswer,
        SourceLine,
    )
    from kernelkb.sass.counters import SourceCounters
    from kernelkb.sass.function import Instruction, Place

_ACCESS = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->)\w+)*\s*(?:\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\])+")
_ASSIGNMENT = re.compile(r"(?<![=!<>])[-+*/|&^]?=(?!=)")
_STORES = ("ST", "RED")
_OPERATION = re.compile(r"(?:@!?U?P[T\d]\s+)?(?P<name>\w+)")
_FACTOR = re.compile(r"[*]|<<")
_MAX_CHARS = 60

_MAX_LINES = 3
_MAX_ACCESSED = 5
"""Lines of each memory."""
_MIN_SHARE = 0.1
_MIN_WITH_LINE = 0.8
_NO_LINES = "the code was compiled without -lineinfo"
_COUNTED_BY = {"memory": "sectors", "l1": "l1-passes", "compute": "executed"}
"""By part of the time, what counts for it at an instruction; for waits the samples do."""
_IN_NO_LINE = ("launch", "fill", "unexplained", "other")
_NOT_WAITING = ("stall:selected", "stall:not_selected")
"""Samples of warps that issue, or could."""


class _Weight(NamedTuple):
    """A part of what was counted, and the instruction that it is due to."""

    cause: int
    waiting: int
    value: float
    producer: Producer | None


class LineShare(NamedTuple):
    """A line, and what is due to it."""

    place: Place
    weights: tuple[_Weight, ...]
    value: float


def find_lines(counters: SourceCounters, evidence: Sequence[LineEvidenceRow]) -> LineAnswer:
    """Return the lines that a bottleneck lies at.

    Args:
        counters: Of one launch.
        evidence: Of the bottleneck; the first counts for which something was counted.
    """
    if not evidence:
        return _refuse("it lies in the launch or the sizes")
    for one in evidence:
        weights = list(_weigh_instructions(counters, one))
        if weights:
            return _build_answer(counters, one, weights)
    if not counters.function.is_readable and any(one["operations"] for one in evidence):
        return _refuse("which of its instructions do that cannot be told: see the note on the code")
    counted = " or ".join(dict.fromkeys(one["of"] for one in evidence))
    return _refuse(f"the report counts nothing of {counted} by instruction")


def find_heaviest_line(counters: SourceCounters, part: str) -> str | None:
    """Return the line that most of a part of the time is due to, as file:line, with its share.

    Args:
        counters: Of the launch.
        part: Of ``kernelkb.model.answers.recommendation.TimeShare``.

    Returns:
        None for a part that lies in no line, and where none holds a tenth.
    """
    if part in _IN_NO_LINE:
        return None
    if part in _COUNTED_BY:
        counts = counters.get_counts(_COUNTED_BY[part]).items()
        weights = [_Weight(at, at, value, None) for at, value in counts]
    else:
        weights = list(_weigh_producers(counters, "samples"))
    total, ranked = sum(one.value for one in weights), rank_lines(counters, weights)
    if not ranked or ranked[0].value < _MIN_SHARE * total:
        return None
    file, line = ranked[0].place
    return f"{file.rpartition('/')[2]}:{line} ({ranked[0].value / total:.0%})"


def _refuse(reason: str) -> LineAnswer:
    return {"lines": [], "reason": reason}


def _weigh_instructions(counters: SourceCounters, evidence: LineEvidenceRow) -> Iterator[_Weight]:
    if evidence["producer"]:
        weights = _weigh_producers(counters, evidence["count"])
    else:
        counts = counters.get_counts(evidence["count"]).items()
        weights = (_Weight(at, at, value, None) for at, value in counts)
    instructions = counters.function.instructions
    yield from (one for one in weights if _is_asked(instructions[one.cause], evidence))


def _weigh_producers(counters: SourceCounters, count: str) -> Iterator[_Weight]:
    """Yield each stall, due to the instructions that are waited for, or else to its own.

    Of several loads that one instruction waits for, each counts by the sectors that it needs.
    """
    stalls = [count] if count != "samples" else counters.list_stalls(_NOT_WAITING)
    sectors = counters.get_counts("sectors")
    for stall in stalls:
        for at, value in counters.get_counts(stall).items():
            found = find_producers(counters.function, at, stall)
            first = [one for one in found if one.dependence == found[0].dependence]
            costs = [sectors.get(one.at, 0.0) for one in first]
            total = sum(costs)
            for producer, cost in zip(first, costs, strict=True):
                share = cost / total if total else 1 / len(first)
                yield _Weight(producer.at, at, value * share, producer)
            if not first:
                yield _Weight(at, at, value, None)


def _is_asked(instruction: Instruction, evidence: LineEvidenceRow) -> bool:
    names = evidence["operations"]
    is_named = any(f"{instruction.operation}.".startswith(f"{name}.") for name in names)
    return (is_named or not names) and not set(evidence["without"]) & set(instruction.modifiers)


def choose_place(places: Sequence[Place]) -> Place | None:
    """Return the line to show for an instruction; None without one.

    The innermost line of the kernel's own folder: of a function in a library's header, the call.
    """
    if not places:
        return None
    folder = get_folder(places[-1].file)
    return next(place for place in places if get_folder(place.file) == folder)


def rank_lines(counters: SourceCounters, weights: Iterable[_Weight]) -> list[LineShare]:
    """Return the lines, the one to which most is due first."""
    groups: dict[Place, list[_Weight]] = defaultdict(list)
    for one in weights:
        place = choose_place(counters.function.places[one.cause])
        if place is not None:
            groups[place].append(one)
    shares = [
        LineShare(place, tuple(group), sum(one.value for one in group))
        for place, group in groups.items()
    ]
    return sorted(shares, key=lambda one: (-one.value, one.place))


def _build_answer(
    counters: SourceCounters, evidence: LineEvidenceRow, weights: Sequence[_Weight]
) -> LineAnswer:
    outside = counters.outside if evidence["count"] == "samples" else 0.0
    total = sum(one.value for one in weights) + outside
    ranked = rank_lines(counters, weights)
    with_line = sum(one.value for one in ranked) / total
    if not ranked:
        return _refuse(_NO_LINES)
    if with_line < _MIN_WITH_LINE:
        return _refuse(
            f"only {with_line:.0%} of {evidence['of']} have a line; the compiler's code for "
            "divisions and roots has none, nor have libraries"
        )
    told = [one for one in ranked[:_MAX_LINES] if one.value >= _MIN_SHARE * total]
    if not told:
        return _refuse(f"no line holds a tenth of {evidence['of']}: they are spread over many")
    lines = [_describe_line(counters, one, evidence["of"], total) for one in told]
    return {"lines": lines, "reason": None}


def _describe_line(counters: SourceCounters, line: LineShare, of: str, total: float) -> SourceLine:
    largest = max(line.weights, key=lambda one: one.value)
    producer = largest.producer
    outer = counters.function.places[largest.cause][-1]
    is_inlined = outer != line.place
    samples, stall = _summarize_samples(counters, line.place)
    at = _describe_place(counters, line.place, largest.cause)
    return {
        "at": at,
        "access": find_access(at),
        "pattern": _describe_pattern(counters, largest.cause),
        "share": round(line.value / total, 4),
        "of": of,
        "samples": samples,
        "stall": stall,
        "called_at": _describe_place(counters, outer, largest.cause) if is_inlined else None,
        "waiting": _describe_waiting(counters, largest.waiting) if producer else None,
        "dependence": producer.dependence if producer else None,
    }


def _describe_pattern(counters: SourceCounters, index: int) -> str | None:
    """Return how an instruction's lanes access memory; None where nothing is counted of it."""
    found = find_access_patterns(counters, only=index)
    return "; ".join(map(describe_access, found)) or None


def find_accessed_lines(counters: SourceCounters) -> list[AccessedLine]:
    """Return the lines to which most sectors, and most passes in shared memory, are due.

    Args:
        counters: Of one launch.
    """
    told: list[AccessedLine] = []
    patterns = list(find_access_patterns(counters))
    for memory in ("global", "shared"):
        by_line: dict[Place, list[AccessPattern]] = defaultdict(list)
        for one in patterns:
            place = choose_place(counters.function.places[one.at])
            if place is not None and one.memory == memory:
                by_line[place].append(one)
        total = sum(one.total for one in patterns if one.memory == memory)
        rows = [_describe_accesses(place, group, total) for place, group in by_line.items()]
        ranked = sorted(rows, key=lambda row: (-row["share"], row["file"], row["line"]))
        told += [row for row in ranked[:_MAX_ACCESSED] if row["share"] >= _MIN_SHARE]
    return told


def _describe_accesses(place: Place, group: Sequence[AccessPattern], total: float) -> AccessedLine:
    largest = max(group, key=lambda one: one.total)
    return {
        "file": place.file,
        "line": place.line,
        "share": round(sum(one.total for one in group) / total, 4),
        "pattern": describe_access(largest),
    }


def _describe_waiting(counters: SourceCounters, index: int) -> CodePlace | None:
    place = choose_place(counters.function.places[index])
    return _describe_place(counters, place, index) if place is not None else None


def _describe_place(counters: SourceCounters, place: Place, index: int) -> CodePlace:
    source = counters.sources.get(place.file, "").split("\n")  # a form feed ends no line
    return {
        "file": place.file,
        "line": place.line,
        "text": source[place.line - 1].strip() if 0 < place.line <= len(source) else "",
        "instruction": counters.function.instructions[index].text,
    }


def _summarize_samples(counters: SourceCounters, place: Place) -> tuple[float | None, str | None]:
    """Return the share of all samples at a line, and their most frequent stall."""
    samples = counters.get_counts("samples")
    total = sum(samples.values()) + counters.outside
    if not total:
        return None, None
    places = counters.function.places
    at_line = {at for at in samples if choose_place(places[at]) == place}
    counts = {
        name: sum(value for at, value in counters.get_counts(name).items() if at in at_line)
        for name in counters.list_stalls(_NOT_WAITING)
    }
    largest = max(counts, key=lambda name: counts[name], default=None)
    stall = largest.partition(":")[2] if largest is not None and counts[largest] else None
    return round(sum(samples[at] for at in at_line) / total, 4), stall


def find_access(place: CodePlace) -> str | None:
    """Return the array access of a line that an instruction makes: ``x[row * cols + i]``.

    Of a store the one that is assigned to; of a load the one with a factor in its index, which
    is the one that may lie far from its neighbours, or else the first. None without an access.
    """
    text = place["text"].partition("//")[0]
    target, sign, value = _split_assignment(text)
    operation = _OPERATION.match(place["instruction"])
    is_store = operation is not None and operation["name"].startswith(_STORES)
    found = _ACCESS.findall(target if is_store and sign else value if sign else text)
    found = found or _ACCESS.findall(text)
    best = next((one for one in found if not is_store and _FACTOR.search(one)), None)
    chosen = best or (found[-1 if is_store else 0] if found else None)
    return chosen if chosen is not None and len(chosen) <= _MAX_CHARS else None


def _split_assignment(text: str) -> tuple[str, str, str]:
    """Return what is assigned to, the sign, and what is assigned: of the last assignment."""
    signs = list(_ASSIGNMENT.finditer(text))
    if not signs:
        return "", "", text
    last = signs[-1]
    return text[: last.start()], last[0], text[last.end() :]
