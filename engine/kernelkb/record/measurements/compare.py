"""Computes the speedup of one measurement over another, with a 95 % interval. No I/O."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from math import exp, log
from typing import NamedTuple

from kernelkb.model.records.history import Measurement, PairwiseComparison
from kernelkb.model.records.measurement import DISTURBANCE_TEXT, Bench, is_valid, may_be_noise

_RESAMPLES = 2000
"""Bootstrap resamples; the 2.5th and 97.5th percentile bound the interval."""
_LOW_INDEX, _HIGH_INDEX = int(0.025 * _RESAMPLES), int(0.975 * _RESAMPLES) - 1
_MIN_PAIRS = 5
"""Fewer pairs give no interval."""
_VARIANT_PREFIX = "variant "
"""Start of a baseline's name where the baseline is another variant."""


def compute_comparison(a: Measurement, b: Measurement) -> PairwiseComparison:
    """Return the speedup of ``b`` over ``a`` with a 95 % interval, or why there is none.

    Times of two separate runs are never divided by each other, because the state of the machine
    (clocks, heat, load) changes between runs. Either one was timed against the other in one run, or
    both were timed against the same baseline on the same machine and by the same judge; then the
    two paired speedups are divided, and the interval is a bootstrap over both sets of samples.
    Memory and energy of both stand beside it.
    """
    found = _compare_times(a, b)
    update = {"because": f"{found.because}{mark_imported(a, b)}", **_pair_resources(a, b)}
    return found.model_copy(update=update)


def mark_imported(*each: Measurement | None) -> str:
    """Return which measurements were not measured here, as the end of a reason; empty if all."""
    names = [one.id[:8] for one in each if one is not None and one.imported]
    return f"; imported: {', '.join(names)}" if names else ""


def _pair_resources(a: Measurement, b: Measurement) -> dict[str, object]:
    """Return peak memory and energy of both, where they are of the same calls and known."""
    one, other = a.resource_use, b.resource_use
    names = ("kernel", "target", "workload", "inputs", "device")
    if one is None or other is None:
        return {}
    if any(getattr(a.subject, name) != getattr(b.subject, name) for name in names):
        return {}
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in ("peak_bytes", "joules")}
    return {name: pair for name, pair in pairs.items() if None not in pair}


def _compare_times(a: Measurement, b: Measurement) -> PairwiseComparison:
    reason = no_timing_reason(a) or no_timing_reason(b) or _different_setup_reason(a, b)
    if reason is not None:
        return _build_incomparable(a, b, reason)
    direct = _compare_directly(a, b)
    if direct is not None:
        return direct
    reason = (
        _different_baseline_reason(a, b)
        or _unusable_samples_reason(a)
        or _unusable_samples_reason(b)
    )
    return _build_incomparable(a, b, reason) if reason else _compare_by_baseline(a, b)


def no_timing_reason(one: Measurement) -> str | None:
    """Return the reason why a measurement has no comparable time; None if it has one."""
    if one.kind not in ("bench", "tune"):
        return f"{one.id[:8]} is a {one.kind}, which measures no time"
    if not is_valid(one.verdict) or one.candidate_us is None:
        return f"{one.id[:8]} is {one.verdict or 'not judged'}"
    disturbance = find_noise_reason(one)
    return f"{one.id[:8]} is no fair sample: {disturbance}" if disturbance else None


def find_noise_reason(timed: Bench | Measurement) -> str | None:
    """Return how other work or heat disturbed a bench, with the cure; None if its times count.

    ``faster`` despite the noise stands. Of ``slower`` only the direction does: the candidate may
    have waited for cores more than its baseline, so its times are compared with no others.
    """
    if not may_be_noise(timed.verdict):
        return None
    return DISTURBANCE_TEXT[timed.disturbed_by] if timed.disturbed_by else None


def mark_noisy(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return metrics with ``noisy_timing`` instead of the speedup."""
    kept = {name: value for name, value in metrics.items() if name != "speedup"}
    return {**kept, "noisy_timing": 1.0}


def _unusable_samples_reason(one: Measurement) -> str | None:
    if not one.samples:
        return f"{one.id[:8]} came without its samples"
    if len(one.samples) < _MIN_PAIRS:
        return f"{one.id[:8]} has {len(one.samples)} pairs, too few for an interval"
    if min(map(min, one.samples)) <= 0:
        return f"{one.id[:8]} has samples of zero time"
    return None


def _different_setup_reason(a: Measurement, b: Measurement) -> str | None:
    """Return the first difference in setup between two measurements; None if there is none."""
    if a.id == b.id:
        return "they are the same measurement"
    for name in ("kernel", "target", "workload", "inputs", "device", "judge"):
        one, other = getattr(a.subject, name), getattr(b.subject, name)
        if one != other:
            return f"their {name} differs: {one} and {other}"
    if a.timing != b.timing:
        return f"they were timed in different ways: {a.timing} and {b.timing}"
    return None


def _different_baseline_reason(a: Measurement, b: Measurement) -> str | None:
    if a.baseline is None or a.baseline != b.baseline:
        return f"they were timed against different baselines: {a.baseline} and {b.baseline}"
    one, other = a.subject.environment.get("torch"), b.subject.environment.get("torch")
    if one != other and not a.baseline.startswith(_VARIANT_PREFIX):
        return f"their baseline {a.baseline} has different torch versions: {one} and {other}"
    return None


def _compare_directly(a: Measurement, b: Measurement) -> PairwiseComparison | None:
    """Return the comparison if the two were timed against each other in one run; else None."""
    for one, other in ((a, b), (b, a)):
        if other.baseline != _VARIANT_PREFIX + one.subject.variant or not (
            other.speedup and other.interval
        ):
            continue
        if other.baseline_sources != one.subject.sources:
            changed = f"{one.subject.variant} had other sources when it was the baseline"
            return _build_incomparable(a, b, changed)
        low, high = other.interval
        if one is a:
            return _build_direct(a, b, other.speedup, other.interval)
        return _build_direct(a, b, 1 / other.speedup, (1 / high, 1 / low))
    return None


def _build_direct(
    a: Measurement, b: Measurement, ratio: float, interval: tuple[float, float]
) -> PairwiseComparison:
    because = "timed against each other, in one run"
    return PairwiseComparison(
        a=a.id, b=b.id, ratio=ratio, interval=interval, by="direct", because=because
    )


def _build_incomparable(a: Measurement, b: Measurement, because: str) -> PairwiseComparison:
    one, other = a.subject, b.subject
    where = f"--target {other.target} --workload {other.workload}"
    command = f"kb bench {other.kernel} --variant {other.variant} {where}"
    if one.kernel == other.kernel and one.variant != other.variant:
        command = f"{command} --against {one.variant}"
    return PairwiseComparison(a=a.id, b=b.id, because=because, command=command)


class _Bootstrap(NamedTuple):
    """The median log speedup of one measurement, and the medians of its bootstrap resamples."""

    point: float
    medians: list[float]
    """Median log speedup of each resample, in the order they were drawn."""
    extra_below: float
    """Log distance by which the reported interval extends below the interval of the samples: the
    uncertainty of the judge's clock, which dividing two speedups does not remove."""
    extra_above: float
    """The same distance above the interval of the samples."""


def _compare_by_baseline(a: Measurement, b: Measurement) -> PairwiseComparison:
    one = _bootstrap_medians(a.samples, a.interval, 0)
    other = _bootstrap_medians(b.samples, b.interval, 1)
    drawn = zip(one.medians, other.medians, strict=True)
    ratios = sorted(after - before for before, after in drawn)
    low = ratios[_LOW_INDEX] - one.extra_above - other.extra_below
    high = ratios[_HIGH_INDEX] + one.extra_below + other.extra_above
    counts = f"{len(a.samples)} and {len(b.samples)} pairs"
    return PairwiseComparison(
        a=a.id,
        b=b.id,
        ratio=exp(other.point - one.point),
        interval=(exp(low), exp(high)),
        by="same-baseline",
        because=f"both timed against {a.baseline}; {counts}",
    )


@lru_cache(maxsize=32)  # the regression gate compares many measurements with the same one
def _bootstrap_medians(
    samples: tuple[tuple[float, float], ...],
    reported_interval: tuple[float, float] | None,
    seed: int,
) -> _Bootstrap:
    logs = sorted(log(baseline / candidate) for candidate, baseline in samples)
    medians = [(logs[i] + logs[j]) / 2 for i, j in _draw_median_indices(len(logs), seed)]
    low, high = _percentile_interval(medians)
    reported_low, reported_high = reported_interval or (exp(low), exp(high))
    below, above = max(0.0, low - log(reported_low)), max(0.0, log(reported_high) - high)
    return _Bootstrap(statistics.median(logs), medians, below, above)


def _percentile_interval(values: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[_LOW_INDEX], ordered[_HIGH_INDEX]


@cache
def _draw_median_indices(count: int, seed: int) -> tuple[tuple[int, int], ...]:
    """Return, for each resample of ``count`` sorted values, the indices of its two middle values.

    The median of a resample needs only these two. Order statistics of uniform numbers follow beta
    distributions, so the middle ones are drawn directly: the same bootstrap as
    ``kernelkb.measure.bench.statistics``, a hundred times as fast, which ``kb lab regress`` needs.
    """
    draw = random.Random(seed)  # fixed seed: equal inputs give equal intervals
    lower = (count + 1) // 2
    indices = []
    for _ in range(_RESAMPLES):
        first = second = draw.betavariate(lower, count + 1 - lower)
        if count % 2 == 0:
            second = 1 - (1 - first) * (1 - draw.random()) ** (1 / (count - lower))
        indices.append((int(count * first), min(count - 1, int(count * second))))
    return tuple(indices)
