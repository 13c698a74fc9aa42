"""A session → what a person reads of it in its Markdown file, around the records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC

from kernelkb.model.review import Review
from kernelkb.model.session import Decision, Entry, PlannedPhase, Session, Step
from kernelkb.render.decisions import came_of
from kernelkb.render.units import allowance

_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]+")
_MARKS = re.compile(r"([\\|<*])")
_LONGEST = 300


def title(session: Session) -> str:
    """Return the heading of the file."""
    return f"# {_plain(session.goal)}"


def plan_lines(phases: tuple[PlannedPhase, ...], gates: Mapping[str, str]) -> Iterator[str]:
    """Yield a plan as a table with a box to tick for each gate; nothing without a plan.

    Args:
        phases: The plan.
        gates: The question that each gate asks, by its id; those that it lacks show their id only.
    """
    if not phases:
        return
    yield "| phase | time | gate | asks | passed |"
    yield "|---|---|---|---|---|"
    for phase in phases:
        first = (phase.phase, allowance(phase.budget_min, phase.predicted_min))
        for gate in phase.gates:
            yield _row(*first, gate, gates.get(gate, ""), "[ ]")
            first = ("", "")
        if not phase.gates:
            yield _row(*first, "", "", "[ ]")


def entry_title(entry: Entry) -> str:
    """Return the heading of an entry: when, which verb, what for."""
    verb = f"{_plain(entry.by)}: " if entry.by else ""
    at = entry.at.astimezone(UTC) if entry.at.tzinfo else entry.at
    return f"## {at:%Y-%m-%d %H:%M} UTC, {verb}{_plain(entry.goal)}"


def entry_page(entry: Entry) -> Iterator[str]:
    """Yield what happened, as paragraphs that an empty line parts."""
    if entry.steps:
        rows = (_step(step) for step in entry.steps)
        yield "\n".join(("| step | variant | | found | s |", "|---|---|---|---|---:|", *rows))
    said = [
        *(f"- decided: {_plain(_decision(decision))}" for decision in entry.decisions),
        *(f"- reviewed: {_plain(_review(review))}" for review in entry.reviews),
        *(f"- wrong: {_plain(line)}" for line in entry.went_wrong),
        *(f"- right: {_plain(line)}" for line in entry.went_right),
        *(f"- a pattern? {_plain(line)}" for line in entry.pattern_candidates),
        *(
            f"- {_HELD[claim.held]}: {_plain(claim.said)}: {_plain(claim.why)}"
            for claim in entry.claims
        ),
    ]
    if entry.cost_usd is not None:
        said.append(f"- cost: {entry.cost_usd:.2f} USD")
    if entry.closes:
        said.append("- the session ends here")
    if said:
        yield "\n".join(said)


_HELD = {True: "holds", False: "does not hold", None: "cannot be judged"}


def _step(step: Step) -> str:
    return _row(step.name, step.variant or "", step.status, step.found, f"{step.seconds:.1f}")


def _decision(decision: Decision) -> str:
    tried = f"applied as {decision.applied_as}" if decision.applied_as else "not tried"
    return "; ".join((f"{decision.fix} for {decision.bottleneck}, {tried}", *came_of(decision)))


def _review(review: Review) -> str:
    text = f"{review.fix} for {review.bottleneck} was {review.verdict}, by {review.reviewer}"
    return f"{text}: {review.why}" if review.why else text


def _row(*cells: str) -> str:
    return f"| {' | '.join(_plain(cell) for cell in cells)} |"


def _plain(text: str) -> str:
    """Return one line that Markdown shows as it is, and that no marker of the file can be in."""
    line = _BREAKS.sub(" ", text).strip()
    if len(line) > _LONGEST:
        line = f"{line[:_LONGEST]}…"
    return _MARKS.sub(r"\\\1", line)
