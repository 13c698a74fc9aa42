"""Outcomes of sessions → text."""

from __future__ import annotations

from collections.abc import Iterator

from kernelkb.model.outcome import Contrasts, Outcomes, PhaseTime, Reached, Trend
from kernelkb.render.units import span

_UNKNOWN = "not known"


def outcome_lines(one: Outcomes) -> Iterator[str]:
    """Yield one session's metrics, a line for each."""
    told = "  (an account; nothing was measured here)" if one.kind == "reported" else ""
    yield f"{one.session}  {one.goal}{told}"
    rows = (
        ("working build", _build(one)),
        ("bottleneck", _bottleneck(one)),
        ("changes", _changes(one)),
        ("final speedup", _reached(one.final)),
        *([("best speedup", _reached(one.best))] if one.best != one.final else []),
        ("decisions", _decisions(one)),
        ("falsifiers", _falsifiers(one)),
        ("time", _minutes(one.minutes)),
        ("cost", _cost(one.cost_usd)),
        *((f"{phase.phase} time", _expected(phase)) for phase in one.phases),
    )
    yield from (f"  {name:14} {text}" for name, text in rows)
    if one.claims:
        yield f"  {'claims':14} {one.claims}, {one.false_claims} of them did not hold up"


def _expected(phase: PhaseTime) -> str:
    low, _, high = phase.predicted_min
    span = f"expected {_minutes(low)} to {_minutes(high)}"
    if phase.minutes is None:
        return f"nothing logged, {span}"
    return f"{_minutes(phase.minutes)}, {'as' if phase.inside else 'not as'} {span}"


def _build(one: Outcomes) -> str:
    if not one.worked:
        return "none: nothing that was built was found right"
    return _since(one.minutes_to_build)


def _since(minutes: float | None) -> str:
    return f"after {_minutes(minutes)}" if minutes is not None else "after a time not known"


def _bottleneck(one: Outcomes) -> str:
    if one.bottleneck is None:
        return "none was named"
    return f"{one.bottleneck}, {_since(one.minutes_to_bottleneck)}"


def _changes(one: Outcomes) -> str:
    if one.changes is None:
        return _UNKNOWN
    text = f"{one.changes}, {one.blind_changes} blind"
    if not one.changes:
        return text
    wrong = "not known whether any was wrong" if one.wrong_changes is None else _wrong(one)
    return f"{text}, {wrong}"


def _wrong(one: Outcomes) -> str:
    return f"{one.wrong_changes} wrong of {one.judged_changes} that can be judged"


def _reached(reached: Reached | None) -> str:
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
    return text if reached.checked else f"{text}; no check found it right"


def _decisions(one: Outcomes) -> str:
    if not one.decisions:
        return "none"
    text = f"{one.decisions}, {one.predicted} predicted, {one.measured} measured"
    return f"{text}, {one.inside} of {one.compared} inside the prediction" if one.compared else text


def _falsifiers(one: Outcomes) -> str:
    if not one.falsifiers_held + one.falsifiers_failed:
        return "none was tested"
    return f"{one.falsifiers_held} held, {one.falsifiers_failed} failed"


def _minutes(minutes: float | None) -> str:
    if minutes is None:
        return _UNKNOWN
    return span(minutes)


def _cost(cost: float | None) -> str:
    return _UNKNOWN if cost is None else f"{cost:.2f} USD"


def contrast_lines(sides: Contrasts) -> Iterator[str]:
    """Yield two sessions side by side, then the ratio of their speedups or why there is none."""
    names = (sides.before.session, sides.after.session)
    wide = max(12, *map(len, names))
    yield f"{'':22} {names[0]:>{wide}} {names[1]:>{wide}} {'difference':>12}"
    for row in sides.rows:
        both = " ".join(f"{_number(value):>{wide}}" for value in (row.before, row.after))
        gap = _number(row.difference, signed=True)
        yield f"{row.metric.replace('_', ' '):22} {both} {gap:>12}"
    if sides.ratio is None or sides.interval is None:
        yield f"no ratio of the speedups: {sides.why_not}"
    else:
        low, high = sides.interval
        word = _word(low, high)
        yield f"speedups: {sides.ratio:.3g}x [{low:.3g}, {high:.3g}], the second is {word}"


def _word(low: float, high: float) -> str:
    if low > 1:
        return "faster"
    return "slower" if high < 1 else "neither faster nor slower, as far as this tells"


def _number(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "?"
    form = ",.0f" if abs(value) >= 1000 else ".3g"
    return format(value, f"+{form}" if signed else form)


_COLUMNS = ("build", "bottleneck", "changes", "blind", "wrong", "speedup", "minutes", "USD")


def trend_lines(trend: Trend) -> Iterator[str]:
    """Yield a table of sessions, oldest first, and what all of them took."""
    wide = max(len(one.session) for one in trend.sessions) + 2
    yield f"{'':{wide}}{''.join(f'{name:>11}' for name in _COLUMNS)}"
    for one in trend.sessions:
        yield f"{one.session:{wide}}{''.join(f'{cell:>11}' for cell in _cells(one))}{_marks(one)}"
    yield f"minutes: {_total(_number(trend.minutes), trend.timed, trend)}"
    yield f"cost: {_total(_cost(trend.cost_usd), trend.priced, trend)}"
    yield "build: minutes until something built was found right; bottleneck: until one was named"
    yield "wrong 1/2: one of two changes that can be judged; -: never; ?: the record does not say"


def _cells(one: Outcomes) -> Iterator[str]:
    yield _number(one.minutes_to_build) if one.worked else "-"
    yield _number(one.minutes_to_bottleneck) if one.bottleneck else "-"
    yield _number(one.changes)
    yield _number(one.blind_changes)
    part = f"/{one.judged_changes}" if one.judged_changes != one.changes else ""
    yield _number(one.wrong_changes) + (part if one.wrong_changes is not None else "")
    yield _number(one.final.speedup) if one.final else "-"
    yield _number(one.minutes)
    yield _number(one.cost_usd)


def _total(text: str, known: int, trend: Trend) -> str:
    if not known:
        return "no session says"
    return f"{text} in the {known} of {len(trend.sessions)} sessions that say"


def _marks(one: Outcomes) -> str:
    if one.kind == "reported":
        return "  account"
    return "" if one.final is None or one.final.checked else "  not checked"
