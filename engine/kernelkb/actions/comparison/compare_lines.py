"""Compares two reports by part of the time and by line: what each cost before and costs now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import SequenceMatcher
from pathlib import Path, PurePath
from typing import NamedTuple, TypeVar

from kernelkb.decide.source_lines import choose_place
from kernelkb.model.answers.recommendation import TimeShare
from kernelkb.model.answers.report_comparison import (
    Amount,
    LineChange,
    LineFate,
    PartChange,
    SampleChanges,
    SourcePoint,
)
from kernelkb.profiles.report import read_source_counters
from kernelkb.sass.counters import STALL_PREFIX, SourceCounters
from kernelkb.sass.function import Place

_MAX_PARTS = 5
_MIN_MOVE = 0.005
"""Least change of a share that is told."""
_REST = "other"
"""The part of a time budget that sums those too small to be told."""
_MIN_SIMILARITY = 0.6
"""Least ``SequenceMatcher.ratio`` of a line and the one that took its place (judgement)."""
_MIN_LETTERS = 4
"""Letters and digits that a line needs to be found elsewhere: braces are everywhere."""
_MAX_BLOCK_CELLS = 40_000
"""Most pairs of lines in a replaced block whose similarity is computed: about a second."""

_OTHER_WORK = 1.5
"""Least ratio of executed instructions that the same code shows on other data (judgement)."""
_OF_A_BUILD = (
    "register_count", "static_shared_bytes", "dynamic_shared_bytes", "block_thread_count",
)  # fmt: skip
"""What a change of the code hardly leaves as it is, all of it."""

_ChangeT = TypeVar("_ChangeT", PartChange, LineChange)
_MIN_CHANGE = 0.01
"""Least change that is told, as a share of the longer duration."""
_NOTHING_COUNTED = (
    "{path} counts nothing by instruction; ncu --section SourceCounters --import-source yes "
    "records it"
)


def compare_budgets(
    before: Sequence[TimeShare],
    now: Sequence[TimeShare],
    durations_us: tuple[float | None, float | None],
) -> list[PartChange]:
    """Return the parts of two time budgets whose share changed most, the largest change first.

    A part below 2 % of the time is not in a budget, and counts as 0 there.
    """
    if not before or not now:
        return []
    old, new = ({row["part"]: row for row in side} for side in (before, now))
    names = [name for name in {**old, **new} if name != _REST]
    changes: list[PartChange] = [
        {
            "part": name,
            "title": (old.get(name) or new[name])["title"],
            "title_now": (new.get(name) or old[name])["title"],
            "before": _make_amount(old.get(name), durations_us[0]),
            "now": _make_amount(new.get(name), durations_us[1]),
        }
        for name in names
    ]
    moved = [change for change in changes if _measure_change(change) >= _MIN_MOVE]
    return sorted(moved, key=lambda change: -_measure_change(change))[:_MAX_PARTS]


def _make_amount(row: TimeShare | None, duration_us: float | None) -> Amount | None:
    if row is None:
        return None
    us = None if duration_us is None else round(row["share"] * duration_us, 3)
    return {"share": row["share"], "us": us, "samples": None}


def _measure_change(change: PartChange) -> float:
    shares = [side["share"] if side else 0.0 for side in (change["before"], change["now"])]
    return abs(shares[1] - shares[0])


class LineMatch(NamedTuple):
    """The line after the change that a line became; both count from 1."""

    now: int
    fate: LineFate


class SampledLines(NamedTuple):
    """The samples of one launch by line."""

    counts: dict[Place, float]
    sources: Mapping[str, str]
    total: float
    """With samples that have no line."""
    duration_us: float | None

    def get_amount(self, place: Place | None) -> Amount | None:
        """Return what was sampled at a line; None without samples."""
        count = self.counts.get(place, 0.0) if place is not None else 0.0
        return make_amount(count, self.total, self.duration_us) if count else None

    def list_text(self, file: str) -> list[str]:
        """Return the stripped lines of a source; empty if the report does not hold it."""
        return [line.strip() for line in self.sources.get(file, "").splitlines()]


def make_amount(count: float, total: float, duration_us: float | None) -> Amount:
    """Return a count of samples with its share, and its share of the duration."""
    share = count / total if total else 0.0
    us = None if duration_us is None else round(share * duration_us, 3)
    return {"share": round(share, 4), "us": us, "samples": count}


def count_line_samples(counters: SourceCounters, duration_us: float | None) -> SampledLines:
    """Return the samples of a launch by line, at the line where the warps wait."""
    samples = counters.get_counts("samples")
    counts: dict[Place, float] = defaultdict(float)
    for at, count in samples.items():
        place = choose_place(counters.function.places[at])
        if place is not None:
            counts[place] += count
    total = sum(samples.values()) + counters.outside
    return SampledLines(dict(counts), counters.sources, total, duration_us)


def match_lines(before: Sequence[str], now: Sequence[str]) -> dict[int, LineMatch]:
    """Return for each line, counted from 1, the one that it became; a line that is gone has none.

    First come the lines in the same order in both, then those whose text is elsewhere now, then
    similar ones in the place of others.

    Args:
        before: The lines, stripped.
        now: Those after the change.
    """
    found: dict[int, LineMatch] = {}
    blocks: list[tuple[range, range]] = []
    matcher = SequenceMatcher(None, before, now, autojunk=False)
    for tag, old, old_end, new, new_end in matcher.get_opcodes():
        if tag == "equal":
            for offset in range(old_end - old):
                found[old + offset + 1] = LineMatch(new + offset + 1, "same")
        else:
            blocks.append((range(old, old_end), range(new, new_end)))
    taken = {match.now for match in found.values()}
    for old, new in _find_moved(before, now, blocks):
        found[old + 1] = LineMatch(new + 1, "same")
        taken.add(new + 1)
    for old_lines, new_lines in blocks:
        left = [at for at in old_lines if at + 1 not in found]
        free = [at for at in new_lines if at + 1 not in taken]
        for old, new in _pair_similar(before, now, left, free):
            found[old + 1] = LineMatch(new + 1, "changed")
    return found


def _find_moved(
    before: Sequence[str], now: Sequence[str], blocks: Sequence[tuple[range, range]]
) -> Iterator[tuple[int, int]]:
    """Yield the positions of lines whose text is in another place now, in the order of both."""
    places: dict[str, list[int]] = defaultdict(list)
    for _, new_lines in blocks:
        for at in new_lines:
            places[now[at]].append(at)
    for old_lines, _ in blocks:
        for at in old_lines:
            letters = sum(one.isalnum() for one in before[at])
            if letters >= _MIN_LETTERS and places[before[at]]:
                yield at, places[before[at]].pop(0)


def _pair_similar(
    before: Sequence[str], now: Sequence[str], left: Sequence[int], free: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield the positions of similar lines, the most similar first; each is taken once."""
    if len(left) * len(free) > _MAX_BLOCK_CELLS:
        return
    scored = []
    for old in left:
        matcher = SequenceMatcher(None, "", before[old], autojunk=False)
        for new in free:
            matcher.set_seq1(now[new])
            if matcher.real_quick_ratio() >= _MIN_SIMILARITY:
                scored.append((matcher.ratio(), old, new))
    used: tuple[set[int], set[int]] = (set(), set())
    for ratio, old, new in sorted(scored, key=lambda row: (-row[0], row[1], row[2])):
        if ratio >= _MIN_SIMILARITY and old not in used[0] and new not in used[1]:
            used[0].add(old)
            used[1].add(new)
            yield old, new


def match_files(before: SampledLines, now: SampledLines) -> dict[str, str]:
    """Return for each sampled file the one that it became: the same path, else the same name.

    The others are paired in the order of their samples.
    """
    old, new = _rank_files(before), _rank_files(now)
    found: dict[str, str] = {}
    for key in (str, lambda file: PurePath(file).name, lambda _: ""):
        for file in list(old):
            other = next((other for other in new if key(other) == key(file)), None)
            if other is not None:
                found[file] = other
                old.remove(file)
                new.remove(other)
    return found


def _rank_files(lines: SampledLines) -> list[str]:
    totals: dict[str, float] = defaultdict(float)
    for place, count in lines.counts.items():
        totals[place.file] += count
    return sorted(totals, key=lambda file: -totals[file])


def compare_lines(before: SampledLines, now: SampledLines) -> list[LineChange]:
    """Return every line with samples in one of two launches, in no order."""
    became: dict[Place, tuple[Place, LineFate]] = {}
    for file, other in match_files(before, now).items():
        became |= _match_places(before, now, file, other)
    pairs: list[tuple[Place | None, Place | None, LineFate]] = [
        (was, *became[was]) if was in became else (was, None, "gone") for was in before.counts
    ]
    origins = {then: (was, then, fate) for was, (then, fate) in became.items()}
    for place in now.counts:
        if place not in origins:
            pairs.append((None, place, "new"))
        elif origins[place][0] not in before.counts:
            pairs.append(origins[place])
    return [_make_change(before, now, *pair) for pair in pairs]


def _match_places(
    before: SampledLines, now: SampledLines, file: str, other: str
) -> dict[Place, tuple[Place, LineFate]]:
    """Return what became of the lines of a file: by their text, or else by their number."""
    old, new = before.list_text(file), now.list_text(other)
    if old and new:
        return {
            Place(file, line): (Place(other, match.now), match.fate)
            for line, match in match_lines(old, new).items()
        }
    sampled = {place.line for place in before.counts if place.file == file}
    sampled |= {place.line for place in now.counts if place.file == other}
    return {Place(file, line): (Place(other, line), "same") for line in sampled}


def _make_change(
    before: SampledLines, now: SampledLines, was: Place | None, then: Place | None, fate: LineFate
) -> LineChange:
    return {
        "fate": fate,
        "at_before": _describe(before, was),
        "at_now": _describe(now, then),
        "before": before.get_amount(was),
        "now": now.get_amount(then),
    }


def _describe(lines: SampledLines, place: Place | None) -> SourcePoint | None:
    if place is None:
        return None
    text = lines.list_text(place.file)
    told = text[place.line - 1] if 0 < place.line <= len(text) else ""
    return {"file": place.file, "line": place.line, "text": told}


class LaunchSamples(NamedTuple):
    """What was counted in a launch by instruction, or why there is nothing."""

    counters: SourceCounters | None
    reason: str | None


def read_launch_samples(launches: Sequence[tuple[Path, int]]) -> list[LaunchSamples]:
    """Return what was counted in launches of binary reports, each with its index."""
    indices: dict[Path, list[int]] = {}
    for path, index in launches:
        indices.setdefault(path, []).append(index)
    with ThreadPoolExecutor() as pool:  # each waits for a process
        started = {path: pool.submit(read_source_counters, path, indices[path]) for path in indices}
    counted = {
        (path, index): counters
        for path, future in started.items()
        for index, counters in zip(indices[path], future.result(), strict=True)
    }
    return [_build_samples(path, counted[path, index]) for path, index in launches]


def _build_samples(path: Path, counters: SourceCounters | str | None) -> LaunchSamples:
    if isinstance(counters, str):
        return LaunchSamples(None, counters)
    if counters is None or not counters.get_counts("samples"):
        return LaunchSamples(None, _NOTHING_COUNTED.format(path=path.name))
    return LaunchSamples(counters, None)


def compare_samples(
    before: SourceCounters, now: SourceCounters, durations_us: tuple[float | None, float | None]
) -> SampleChanges:
    """Return the stalls and lines whose share of the duration changed, the largest change first.

    Args:
        before: Of the old launch.
        now: Of the new one.
        durations_us: Of both; without them, shares of the samples are compared.
    """
    old = count_line_samples(before, durations_us[0])
    new = count_line_samples(now, durations_us[1])
    reason = _explain_lines(old, new)
    lines = compare_lines(old, new) if old.counts and new.counts else []
    return {
        "total_before": old.total,
        "total_now": new.total,
        "stalls": _keep_changed(_compare_stalls(before, now, old, new), durations_us),
        "lines": _keep_changed(lines, durations_us),
        "lines_reason": reason,
    }


def _explain_lines(before: SampledLines, now: SampledLines) -> str | None:
    """Return why lines cannot be compared, or not by their text; None if they can."""
    for name, side in (("old", before), ("new", now)):
        if not side.counts:
            return f"the code of the {name} report was compiled without -lineinfo"
    for name, side in (("old", before), ("new", now)):
        if not any(side.list_text(place.file) for place in side.counts):
            return f"matched by number: the {name} report holds no source (--import-source yes)"
    return None


def _compare_stalls(
    before: SourceCounters, now: SourceCounters, old: SampledLines, new: SampledLines
) -> list[PartChange]:
    changes: list[PartChange] = []
    for name in sorted({*before.list_stalls(), *now.list_stalls()}):
        reason = name.removeprefix(STALL_PREFIX)
        title = reason.replace("_", " ")
        amounts = _count_stall(before, name, old), _count_stall(now, name, new)
        changes.append(
            {
                "part": reason,
                "title": title,
                "title_now": title,
                "before": amounts[0],
                "now": amounts[1],
            }
        )
    return changes


def _count_stall(counters: SourceCounters, name: str, lines: SampledLines) -> Amount | None:
    count = sum(counters.get_counts(name).values())
    return make_amount(count, lines.total, lines.duration_us) if count else None


def _keep_changed(
    changes: Sequence[_ChangeT], durations_us: tuple[float | None, float | None]
) -> list[_ChangeT]:
    """Return the changes that matter, the largest first."""
    known = [us for us in durations_us if us is not None]
    is_timed = len(known) == len(durations_us)
    least = _MIN_CHANGE * (max(known) if is_timed else 1.0)
    sized = [
        (abs(_weigh(one["now"], is_timed) - _weigh(one["before"], is_timed)), one)
        for one in changes
    ]
    kept = [pair for pair in sized if pair[0] >= least]
    return [one for _, one in sorted(kept, key=lambda pair: -pair[0])]


def _weigh(amount: Amount | None, is_timed: bool) -> float:
    if amount is None:
        return 0.0
    return (amount["us"] or 0.0) if is_timed else amount["share"]


def find_other_work(
    before: Mapping[str, float],
    now: Mapping[str, float],
    counted: Sequence[SourceCounters | None],
) -> str | None:
    """Return why two launches are no change of a kernel: the same code on other data; else None.

    Args:
        before: Metrics of the old launch.
        now: Those of the new one.
        counted: Their instructions; without them, what the build gave has to do.
    """
    if before == now:
        return "both are the same launch, so no change is judged"
    old, new = before.get("instruction_count", 0.0), now.get("instruction_count", 0.0)
    if not old or not new or 1 / _OTHER_WORK < new / old < _OTHER_WORK:
        return None
    if any(name not in before or before[name] != now.get(name) for name in _OF_A_BUILD):
        return None
    codes = [side.function.instructions for side in counted if side and side.function.is_readable]
    if len(codes) == len(counted) and codes[0] != codes[1]:
        return None
    code = "the same code" if len(codes) == len(counted) else "what is built alike"
    return f"{new / old:.3g}x the instructions of {code}: other data, so no change is judged"
