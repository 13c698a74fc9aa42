"""Measurements, comparisons and the ratchet → lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kernelkb.model.comparison import Comparison, Place, Ruling
from kernelkb.model.history import Measurement
from kernelkb.render.units import duration


def history_lines(found: Sequence[Measurement]) -> Iterator[str]:
    """Yield a line for each measurement."""
    for one in found:
        subject = one.subject
        what = f"{one.kind:7} {subject.variant:16} {subject.workload:10}"
        yield f"{one.id[:8]}  {one.at:%Y-%m-%d %H:%M}  {what} {_found(one)}  on {subject.device}"


def best_lines(found: Sequence[Measurement]) -> Iterator[str]:
    """Yield a line for each place."""
    for one in found:
        what = f"{one.subject.kernel:16} {one.subject.workload:10} {one.subject.variant:16}"
        yield f"{one.id[:8]}  {what} {_found(one)}  on {one.subject.device}"


def chosen_line(name: str, how: str, one: Measurement) -> str:
    """Say which measurement was taken, and by what."""
    subject = one.subject
    what = f"{subject.variant} of {subject.kernel} on {subject.workload}, {subject.device}"
    return f"{name}: {one.id[:8]} ({how}), {what}, {one.at:%Y-%m-%d %H:%M}: {_found(one)}"


def comparison_line(found: Comparison) -> str:
    """Say how many times as fast the second one is, or why nobody can say."""
    if found.ratio is None or found.interval is None:
        return f"no ratio: {found.because}"
    return f"b is {_ratio(found)} as fast as a; {found.because}"


def ruling_lines(rulings: Sequence[Ruling], *, verbose: bool) -> Iterator[str]:
    """Yield what changed, and on demand what did not; then the counts."""
    for one in rulings:
        if verbose or one.verdict in ("regressed", "promoted"):
            found = one.comparison
            ratio = f" {_ratio(found)}" if found and found.ratio is not None else ""
            yield f"{one.verdict:12} {_where(one.place)} {one.variant}{ratio}: {one.because}"
            if one.verdict == "incomparable" and found and found.command:
                yield f"  $ {found.command}"
    counts = Counter(one.verdict for one in rulings)
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    yield f"newest benches that are not the promoted ones: {told or 'none'}"


def exchanged_lines(what: str, left_out: Mapping[str, int]) -> Iterator[str]:
    """Yield what a file holds, and what could not be carried over."""
    yield what
    yield from (f"  left out {count}: {why}" for why, count in sorted(left_out.items()))


def _where(place: Place) -> str:
    return f"{place.kernel} {place.workload} on {place.device}:"


def _ratio(found: Comparison) -> str:
    low, high = found.interval or (0.0, 0.0)
    return f"{found.ratio:.3g}x [{low:.3g}, {high:.3g}]"


def _found(one: Measurement) -> str:
    if one.candidate_us is None:
        word = one.verdict or one.status or "nothing"
        return f"{word}: {one.detail}" if one.detail else word
    told = [duration(one.candidate_us)]
    if one.speedup is not None and one.interval is not None:
        low, high = one.interval
        told.append(f"{one.speedup:.3g}x of {one.baseline} [{low:.3g}, {high:.3g}]")
    return f"{', '.join(told)}, {one.status or one.verdict or 'not judged'}"
