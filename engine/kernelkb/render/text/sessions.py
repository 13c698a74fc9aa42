"""Formats sessions and their entries as lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from kernelkb.model.records.session import Decision, Session, SessionEntry, SessionSummary
from kernelkb.record.decisions import format_decision_outcome
from kernelkb.units import describe_time_budget


def format_session_lines(sessions: Iterable[SessionSummary]) -> Iterator[str]:
    """Yield one line for each session: id, state, time, kernel and goal."""
    for one in sessions:
        if one.state == "unreadable":
            yield f"{one.session:32} unreadable  kb session show {one.session} says where"
        else:
            when = _format_time(one.opened) if one.opened else ""
            yield f"{one.session:32} {one.state:10}  {when}  {one.kernel or '-':16} {one.goal}"


def format_header_lines(session: Session) -> Iterator[str]:
    """Yield the state, kernel and goal of a session, then its plan, one line for each phase."""
    state = "closed" if session.is_closed else "open"
    kernel = f", kernel {session.kernel}" if session.kernel else ""
    opened = _format_time(session.opened)
    yield f"{session.session}, opened {opened}, {state}{kernel}: {session.goal}"
    if session.kind == "reported":
        yield f"  reported, without evidence; source: {session.source or 'unknown'}"
    for phase in session.phases:
        allowed = describe_time_budget(phase.budget_min, phase.predicted_min)
        yield f"  {phase.phase:10} {allowed}: {', '.join(phase.gates)}"


def _format_time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def format_entry_lines(entry: SessionEntry) -> Iterator[str]:
    """Yield the lines of one entry, its goal first."""
    where = f" on {entry.machine}" if entry.machine else ""
    yield f"{entry.session}  {_format_time(entry.at)}  {entry.goal}{where}"
    for step in entry.steps:
        what = f"{step.name} {step.variant}" if step.variant else step.name
        yield f"  {step.status:8} {what:22} {step.found} ({step.seconds:.1f} s)"
    for decision in entry.decisions:
        yield f"  decided  {_describe_decision(decision)}"
    for review in entry.reviews:
        yield f"  reviewed {review.bottleneck} -> {review.fix}: {review.verdict}"
    for title, lines in (
        ("wrong", entry.went_wrong),
        ("right", entry.went_right),
        ("pattern?", entry.pattern_candidates),
    ):
        yield from (f"  {title:8} {line}" for line in lines)
    for claim in entry.claims:
        yield f"  {_CLAIM_TEXT[claim.held]:8} {claim.said}: {claim.why}"
    if entry.cost_usd is not None:
        yield f"  cost     {entry.cost_usd:.2f} USD"
    if entry.closes:
        yield "  closed"


_CLAIM_TEXT = {True: "true", False: "false", None: "unproven"}


def _describe_decision(decision: Decision) -> str:
    tried = [f"applied as {decision.applied_as}"] if decision.applied_as else []
    said = f"{decision.bottleneck} -> {decision.fix}"
    return ", ".join((said, *tried, *format_decision_outcome(decision)))
