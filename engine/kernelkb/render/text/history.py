"""Formats measurements, comparisons and results of the regression gate as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kernelkb.model.records.history import (
    Measurement,
    PairwiseComparison,
    PromotionScope,
    RegressionResult,
)
from kernelkb.render.text.resource_use import (
    describe_memory_growth,
    describe_own_use,
    describe_verdict,
)
from kernelkb.units import format_duration


def format_history_lines(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield one line for each measurement: id, time, kind, variant, workload, result, device."""
    for one in measurements:
        subject = one.subject
        what = f"{one.kind:7} {subject.variant:16} {subject.workload:10}"
        result = _describe_result(one)
        yield f"{one.id[:8]}  {one.at:%Y-%m-%d %H:%M}  {what} {result}  on {subject.device}"


def format_best_lines(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield one line for each measurement: the best of its kernel, workload and device."""
    for one in measurements:
        what = f"{one.subject.kernel:16} {one.subject.workload:10} {one.subject.variant:16}"
        yield f"{one.id[:8]}  {what} {_describe_result(one)}  on {one.subject.device}"


def describe_choice(name: str, how: str, one: Measurement) -> str:
    """Return one line: the selected measurement, and ``how`` it was selected."""
    subject = one.subject
    what = f"{subject.variant} of {subject.kernel} on {subject.workload}, {subject.device}"
    return f"{name}: {one.id[:8]} ({how}), {what}, {one.at:%Y-%m-%d %H:%M}: {_describe_result(one)}"


def describe_comparison(comparison: PairwiseComparison) -> str:
    """Return the speedup of b over a with its interval, or the reason why there is none."""
    if comparison.ratio is None or comparison.interval is None:
        return f"no ratio: {comparison.because}"
    return f"b is {_format_ratio(comparison)} as fast as a; {comparison.because}"


def format_regression_lines(results: Sequence[RegressionResult], *, verbose: bool) -> Iterator[str]:
    """Yield regressed and promoted variants (``verbose``: all), then a count of each verdict.

    A variant that needs more memory than the promoted measurement is shown, too.
    """
    for one in results:
        found = one.comparison
        growth = describe_memory_growth(found)
        if verbose or growth or one.verdict in ("regressed", "promoted"):
            ratio = f" {_format_ratio(found)}" if found and found.ratio is not None else ""
            place = _describe_place(one.place)
            because = f"{one.because}; {growth}" if growth else one.because
            yield f"{one.verdict:12} {place} {one.variant}{ratio}: {because}"
            if one.verdict == "incomparable" and found and found.command:
                yield f"  $ {found.command}"
    counts = Counter(one.verdict for one in results)
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    yield f"newest benches that are not the promoted ones: {told or 'none'}"


def format_transfer_lines(headline: str, left_out: Mapping[str, int]) -> Iterator[str]:
    """Yield the headline of an export or import, then the count and reason of each omission."""
    yield headline
    yield from (f"  left out {count}: {why}" for why, count in sorted(left_out.items()))


def _describe_place(place: PromotionScope) -> str:
    return f"{place.kernel} {place.workload} on {place.device}:"


def _format_ratio(found: PairwiseComparison) -> str:
    low, high = found.interval or (0.0, 0.0)
    return f"{found.ratio:.3g}x [{low:.3g}, {high:.3g}]"


def _describe_result(one: Measurement) -> str:
    if one.candidate_us is None:
        word = one.verdict or one.status or "nothing"
        return f"{word}: {one.detail}" if one.detail else word
    told = [format_duration(one.candidate_us)]
    if one.speedup is not None and one.interval is not None:
        low, high = one.interval
        told.append(f"{one.speedup:.3g}x of {one.baseline} [{low:.3g}, {high:.3g}]")
    verdict = one.status or describe_verdict(one) or "not judged"
    return f"{', '.join(told)}{describe_own_use(one.resource_use)}, {verdict}"
