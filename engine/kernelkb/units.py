"""Formats durations in a unit that fits their size."""

from __future__ import annotations


def format_duration(us: float) -> str:
    """Return microseconds as text in us, ms or s."""
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    if us >= 1e3:
        return f"{us / 1e3:.2f} ms"
    return f"{us:.2f} us"


def format_minutes(minutes: float) -> str:
    """Return minutes as text; below one minute in seconds."""
    if minutes < 1:
        return f"{minutes * 60:.3g} s"
    return f"{minutes:.1f} min" if minutes < 10 else f"{minutes:.0f} min"


def describe_time_budget(
    budget_min: float, predicted_min: tuple[float, float, float] | None
) -> str:
    """Return a phase's time budget, and the time of its tools predicted from earlier sessions."""
    if predicted_min is None:
        return f"{budget_min:g} min"
    low, point, high = map(format_minutes, predicted_min)
    return f"{budget_min:g} min, of which tools {point} [{low}, {high}]"
