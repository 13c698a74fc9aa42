"""Formats memory, energy and the judge's own time, and the verdict of a disturbed bench."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.device_math.parse_size import format_size
from kernelkb.model.records.history import Measurement, PairwiseComparison
from kernelkb.model.records.measurement import Bench, ResourceUse
from kernelkb.model.records.verdict import may_be_noise

_MEMORY_GROWTH, _MIN_GROWTH_BYTES = 1.1, 2**20
"""Ratio and difference of peak memory from which the regression gate shows it."""


def describe_verdict(timed: Bench | Measurement) -> str | None:
    """Return the verdict; marked where other work or heat disturbed the bench."""
    is_noisy = timed.disturbed_by is not None and may_be_noise(timed.verdict)
    return f"{timed.verdict} (noisy)" if is_noisy else timed.verdict


def describe_resource_use(use: ResourceUse, seconds: float) -> Iterator[str]:
    """Yield a line each on memory, on energy, and on the judge's own time.

    Args:
        use: Of one bench.
        seconds: What the whole bench took.
    """
    if use.peak_bytes is not None and use.baseline_peak_bytes is not None:
        peak, other = format_size(use.peak_bytes), format_size(use.baseline_peak_bytes)
        text = f"peak memory of a call {peak}, baseline {other}"
        if use.held_bytes is not None and use.baseline_held_bytes is not None:
            held, other = format_size(use.held_bytes), format_size(use.baseline_held_bytes)
            text += f"; kept between calls {held}, baseline {other}"
        yield text
    if use.joules is not None:
        baseline = (
            f", baseline {_format_joules(use.baseline_joules)}" if use.baseline_joules else ""
        )
        yield f"energy of a call {_format_joules(use.joules)}{baseline}"
    if use.step_seconds:
        steps = ", ".join(f"{name} {took:.1f}" for name, took in use.step_seconds.items())
        yield f"judged in {seconds:.1f} s: {steps}"


def describe_own_use(use: ResourceUse | None) -> str:
    """Return peak memory and energy of one call as the end of a line; empty where unknown."""
    told = []
    if use is not None and use.peak_bytes is not None:
        told.append(f"{format_size(use.peak_bytes)} at peak")
        if use.baseline_peak_bytes:
            told[0] += f" ({use.peak_bytes / use.baseline_peak_bytes:.3g}x)"
    if use is not None and use.joules is not None:
        told.append(_format_joules(use.joules))
    return "".join(f", {one}" for one in told)


def describe_compared_use(comparison: PairwiseComparison) -> Iterator[str]:
    """Yield a line on peak memory and one on energy of two measurements, where both are known."""
    if comparison.peak_bytes:
        a, b = comparison.peak_bytes
        ratio = f" ({b / a:.3g}x)" if a else ""
        yield f"peak memory of a call: a {format_size(a)}, b {format_size(b)}{ratio}"
    if comparison.joules:
        first, second = comparison.joules
        ratio = f" ({second / first:.3g}x)" if first else ""
        yield f"energy of a call: a {_format_joules(first)}, b {_format_joules(second)}{ratio}"


def describe_memory_growth(comparison: PairwiseComparison | None) -> str | None:
    """Return that ``b`` needs at least 1.1 times the memory of ``a``; None if it does not."""
    if comparison is None or comparison.peak_bytes is None:
        return None
    a, b = comparison.peak_bytes
    if b < max(_MEMORY_GROWTH * a, a + _MIN_GROWTH_BYTES):
        return None
    return f"peak memory of a call grew from {format_size(a)} to {format_size(b)}"


def _format_joules(joules: float) -> str:
    for unit, factor in (("J", 1.0), ("mJ", 1e3)):
        if joules * factor >= 1:
            return f"{joules * factor:.3g} {unit}"
    return f"{joules * 1e6:.3g} uJ"
