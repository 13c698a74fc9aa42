"""Sessions → text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from kernelkb.model.session import Decision, Entry, Session, SessionLine
from kernelkb.render.decisions import came_of
from kernelkb.render.units import allowance


def session_lines(sessions: Iterable[SessionLine]) -> Iterator[str]:
    """Yield a line for each session."""
    for one in sessions:
        if one.state == "unreadable":
            yield f"{one.session:32} unreadable  kb session show {one.session} says where"
        else:
            when = _when(one.opened) if one.opened else ""
            yield f"{one.session:32} {one.state:10}  {when}  {one.kernel or '-':16} {one.goal}"


def header_lines(session: Session) -> Iterator[str]:
    """Yield what a session is for, and its plan."""
    state = "closed" if session.closed else "open"
    kernel = f", kernel {session.kernel}" if session.kernel else ""
    yield f"{session.session}, opened {_when(session.opened)}, {state}{kernel}: {session.goal}"
    if session.kind == "reported":
        yield f"  reported, and no evidence; from {session.source or 'nobody said where'}"
    for phase in session.phases:
        allowed = allowance(phase.budget_min, phase.predicted_min)
        yield f"  {phase.phase:10} {allowed}: {', '.join(phase.gates)}"


def _when(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def entry_lines(entry: Entry) -> Iterator[str]:
    """Yield one entry, the goal first."""
    where = f" on {entry.machine}" if entry.machine else ""
    yield f"{entry.session}  {_when(entry.at)}  {entry.goal}{where}"
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
    for claim in entry.claims:
        yield f"  {_HELD[claim.held]:8} {claim.said}: {claim.why}"
    if entry.cost_usd is not None:
        yield f"  cost     {entry.cost_usd:.2f} USD"
    if entry.closes:
        yield "  closed"


_HELD = {True: "true", False: "false", None: "unproven"}


def _decision(decision: Decision) -> str:
    tried = [f"applied as {decision.applied_as}"] if decision.applied_as else []
    said = f"{decision.bottleneck} -> {decision.fix}"
    return ", ".join((said, *tried, *came_of(decision)))
