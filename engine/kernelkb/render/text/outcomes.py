"""Formats the success metrics of a session as text."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.model.records.outcome import AchievedSpeedup, PhaseOutcome, SessionOutcome
from kernelkb.units import format_minutes

_UNKNOWN = "not known"


def format_outcome_lines(one: SessionOutcome) -> Iterator[str]:
    """Yield the metrics of one session, one line each."""
    told = "  (an account; nothing was measured here)" if one.kind == "reported" else ""
    yield f"{one.session}  {one.goal}{told}"
    rows = (
        ("working build", _describe_first_build(one)),
        ("bottleneck", _describe_bottleneck(one)),
        ("changes", _describe_changes(one)),
        ("final speedup", _describe_speedup(one.final)),
        *([("best speedup", _describe_speedup(one.best))] if one.best != one.final else []),
        ("decisions", _describe_decisions(one)),
        ("falsifiers", _describe_falsifiers(one)),
        ("time", _format_optional_minutes(one.minutes)),
        ("cost", _format_optional_cost(one.cost_usd)),
        *((f"{phase.phase} time", _describe_phase_time(phase)) for phase in one.phases),
    )
    yield from (f"  {name:14} {text}" for name, text in rows)
    if one.claims:
        yield f"  {'claims':14} {one.claims}, {one.false_claims} of them did not hold up"


def _describe_phase_time(phase: PhaseOutcome) -> str:
    low, _, high = phase.predicted_min
    span = f"expected {_format_optional_minutes(low)} to {_format_optional_minutes(high)}"
    if phase.minutes is None:
        return f"nothing logged, {span}"
    return f"{_format_optional_minutes(phase.minutes)}, {'as' if phase.inside else 'not as'} {span}"


def _describe_first_build(one: SessionOutcome) -> str:
    if not one.worked:
        return "none: no build passed a check"
    return _describe_delay(one.minutes_to_build)


def _describe_delay(minutes: float | None) -> str:
    return (
        f"after {_format_optional_minutes(minutes)}"
        if minutes is not None
        else "after a time not known"
    )


def _describe_bottleneck(one: SessionOutcome) -> str:
    if one.bottleneck is None:
        return "none was named"
    return f"{one.bottleneck}, {_describe_delay(one.minutes_to_bottleneck)}"


def _describe_changes(one: SessionOutcome) -> str:
    if one.changes is None:
        return _UNKNOWN
    text = f"{one.changes}, {one.blind_changes} blind"
    if not one.changes:
        return text
    wrong = (
        "not known whether any was wrong"
        if one.wrong_changes is None
        else _describe_wrong_changes(one)
    )
    return f"{text}, {wrong}"


def _describe_wrong_changes(one: SessionOutcome) -> str:
    return f"{one.wrong_changes} wrong of {one.judged_changes} that can be judged"


def _describe_speedup(reached: AchievedSpeedup | None) -> str:
    if reached is None:
        return "none that is valid"
    text = f"{reached.speedup:.3g}x"
    if reached.interval:
        text += f" [{reached.interval[0]:.3g}, {reached.interval[1]:.3g}]"
    text += f" of {reached.baseline}" if reached.baseline else ""
    what = " ".join(filter(None, (reached.kernel, reached.variant)))
    text += f", {what}" if what else ""
    text += f", {reached.workload}" if reached.workload else ""
    text += f", on {reached.machine}" if reached.machine else ""
    return text if reached.checked else f"{text}; no check passed it"


def _describe_decisions(one: SessionOutcome) -> str:
    if not one.decisions:
        return "none"
    text = f"{one.decisions}, {one.predicted} predicted, {one.measured} measured"
    return f"{text}, {one.inside} of {one.compared} inside the prediction" if one.compared else text


def _describe_falsifiers(one: SessionOutcome) -> str:
    if not one.falsifiers_held + one.falsifiers_failed:
        return "none was tested"
    return f"{one.falsifiers_held} held, {one.falsifiers_failed} failed"


def _format_optional_minutes(minutes: float | None) -> str:
    if minutes is None:
        return _UNKNOWN
    return format_minutes(minutes)


def _format_optional_cost(cost: float | None) -> str:
    return _UNKNOWN if cost is None else f"{cost:.2f} USD"
