"""Session entries → text."""

from __future__ import annotations

from collections.abc import Iterator

from engine.model.session import Decision, Entry


def entry_lines(entry: Entry) -> Iterator[str]:
    """Yield one entry, the goal first."""
    where = f" on {entry.machine}" if entry.machine else ""
    yield f"{entry.session}  {entry.at:%Y-%m-%d %H:%M} UTC  {entry.goal}{where}"
    for step in entry.steps:
        what = f"{step.name} {step.variant}" if step.variant else step.name
        yield f"  {step.status:8} {what:22} {step.found} ({step.seconds:.1f} s)"
    for decision in entry.decisions:
        yield f"  decided  {_decision(decision)}"
    for review in entry.reviews:
        yield f"  reviewed {review.bottleneck} -> {review.fix}: {review.verdict}"
    for title, lines in (
        ("wrong", entry.went_wrong),
        ("right", entry.went_right),
        ("pattern?", entry.pattern_candidates),
    ):
        yield from (f"  {title:8} {line}" for line in lines)
    if entry.cost_usd is not None:
        yield f"  cost     {entry.cost_usd:.2f} USD"


def _decision(decision: Decision) -> str:
    text = f"{decision.bottleneck} -> {decision.fix}"
    if decision.applied_as:
        text += f", applied as {decision.applied_as}"
    if decision.predicted:
        low, point, high = decision.predicted
        text += f", predicted {point:.3g}x [{low:.3g}, {high:.3g}]"
    if decision.measured:
        text += f", measured {decision.measured:.3g}x"
    return f"{text}, falsifier {decision.falsifier}" if decision.falsifier else text
