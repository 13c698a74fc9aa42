"""Formats the human-readable parts of a session's Markdown file, around its records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC

from kernelkb.model.entries.learned import Review
from kernelkb.model.records.session import Decision, PlannedPhase, Session, SessionEntry, Step
from kernelkb.record.decisions import format_decision_outcome
from kernelkb.units import describe_time_budget

_BREAK_CHARACTERS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]+")
_MARKDOWN_MARKS = re.compile(r"([\\|<*])")
_MAX_LENGTH = 300


def format_title(session: Session) -> str:
    """Return the heading of the file."""
    return f"# {_escape_line(session.goal)}"


def format_plan_lines(phases: tuple[PlannedPhase, ...], gates: Mapping[str, str]) -> Iterator[str]:
    """Yield a plan as a table with one checkbox for each gate; no line for an empty plan.

    Args:
        phases: The plan.
        gates: Gate id to its question; a gate without a question shows its id only.
    """
    if not phases:
        return
    yield "| phase | time | gate | asks | passed |"
    yield "|---|---|---|---|---|"
    for phase in phases:
        first = (phase.phase, describe_time_budget(phase.budget_min, phase.predicted_min))
        for gate in phase.gates:
            yield _format_row(*first, gate, gates.get(gate, ""), "[ ]")
            first = ("", "")
        if not phase.gates:
            yield _format_row(*first, "", "", "[ ]")


def format_entry_title(entry: SessionEntry) -> str:
    """Return the heading of an entry: its time in UTC, the command that wrote it, its goal."""
    verb = f"{_escape_line(entry.by)}: " if entry.by else ""
    at = entry.at.astimezone(UTC) if entry.at.tzinfo else entry.at
    return f"## {at:%Y-%m-%d %H:%M} UTC, {verb}{_escape_line(entry.goal)}"


def format_entry_paragraphs(entry: SessionEntry) -> Iterator[str]:
    """Yield two paragraphs, each when not empty: a table of steps, and a list of findings."""
    if entry.steps:
        rows = (_format_step_row(step) for step in entry.steps)
        yield "\n".join(("| step | variant | | found | s |", "|---|---|---|---|---:|", *rows))
    said = [
        *(
            f"- decided: {_escape_line(_describe_decision(decision))}"
            for decision in entry.decisions
        ),
        *(f"- reviewed: {_escape_line(_describe_review(review))}" for review in entry.reviews),
        *(f"- wrong: {_escape_line(line)}" for line in entry.went_wrong),
        *(f"- right: {_escape_line(line)}" for line in entry.went_right),
        *(f"- a pattern? {_escape_line(line)}" for line in entry.pattern_candidates),
        *(
            f"- {_CLAIM_TEXT[claim.held]}: {_escape_line(claim.said)}: {_escape_line(claim.why)}"
            for claim in entry.claims
        ),
    ]
    if entry.cost_usd is not None:
        said.append(f"- cost: {entry.cost_usd:.2f} USD")
    if entry.closes:
        said.append("- the session ends here")
    if said:
        yield "\n".join(said)


_CLAIM_TEXT = {True: "holds", False: "does not hold", None: "cannot be judged"}


def _format_step_row(step: Step) -> str:
    return _format_row(
        step.name, step.variant or "", step.status, step.found, f"{step.seconds:.1f}"
    )


def _describe_decision(decision: Decision) -> str:
    tried = f"applied as {decision.applied_as}" if decision.applied_as else "not tried"
    return "; ".join(
        (f"{decision.fix} for {decision.bottleneck}, {tried}", *format_decision_outcome(decision))
    )


def _describe_review(review: Review) -> str:
    text = f"{review.fix} for {review.bottleneck} was {review.verdict}, by {review.reviewer}"
    return f"{text}: {review.why}" if review.why else text


def _format_row(*cells: str) -> str:
    return f"| {' | '.join(_escape_line(cell) for cell in cells)} |"


def _escape_line(text: str) -> str:
    """Return text as one line, cut after 300 characters, with Markdown characters escaped.

    Escaping ``<`` also keeps the text from containing a marker of the session file.
    """
    line = _BREAK_CHARACTERS.sub(" ", text).strip()
    if len(line) > _MAX_LENGTH:
        line = f"{line[:_MAX_LENGTH]}…"
    return _MARKDOWN_MARKS.sub(r"\\\1", line)
