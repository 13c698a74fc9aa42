"""Text of sessions: what they hold, how they went, what they taught, and their review."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import groupby

from kernelkb.model.entries.bottleneck import (
    All,
    Any,
    Bottleneck,
    Comparison,
    Not,
    iter_comparisons,
)
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.learned import (
    PRIOR_SHARE,
    LearnedCatalogue,
    LearnedFix,
    LearnedPhase,
    Review,
    ReviewPreview,
)
from kernelkb.model.records.session import (
    AchievedSpeedup,
    Decision,
    PhaseOutcome,
    Session,
    SessionEntry,
    SessionOutcome,
    SessionSummary,
)
from kernelkb.record.learn import LearnedChange, PatternCandidate
from kernelkb.record.session_text import format_decision_outcome
from kernelkb.render.documents.entries import ThresholdValues, describe_condition
from kernelkb.units import describe_time_budget, format_minutes

_UNKNOWN = "not known"

DecisionContext = tuple[SessionEntry, Decision, Mapping[str, float]]
"""A decision, its entry, and all metrics known there, thresholds as ``limit.<id>`` included."""

NO_REVIEWER = "YOUR NAME"
"""Placeholder of the template."""

_TEMPLATE = """\
# Review of session {session}. Fill in what applies and remove its "#"; then
#     kb session review {session}
# checks this file and prints what it changes. Committing the file accepts the review; from then on
# answers name the reviewer. Deleting it undoes the review.
{goals}session: "{session}"
reviewer: {reviewer}
date: {date}

# verdict: right, wrong or unsure. wrong needs a why; wrong and unsure may name a better
# should_have_been: bottleneck/fix.
verdicts:
{decisions}
# Corrections of the knowledge, each with its why; device may be left out.
# A fix moves up, down, first or last, or is withdrawn (move: withdraw).
corrections:
#- {{change: threshold, threshold: ID, value: 0.25, device: h100-sxm, why: "..."}}
#- {{change: condition, bottleneck: ID, only_if: {{metric: ID, op: ">", value: 0.5}}, why: "..."}}
#- {{change: condition, bottleneck: ID, also_if: {{metric: ID, op: "<", value: 0.1}}, why: "..."}}
#- {{change: fix, bottleneck: ID, fix: ID, move: up, why: "..."}}
#- {{change: when-not, fix: ID, when_not: "...", why: "..."}}
#- change: pattern
#  candidate: "..."
#  id: words-with-hyphens
#  title: "..."
#  problem: "..."
#  practice: "..."
#  triggers: ["..."]
#  steps: ["..."]
#  why: "..."
{candidates}
# Cases of the knowledge that may break; the check above prints their names.
breaks:

comment: null
"""


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


def list_learned_titles(learned: LearnedCatalogue) -> list[dict[str, str]]:
    """Return the id and a one-sentence title of each learned fix, then of each learned phase."""
    fixes = [
        {"id": f"{f.architecture}/{f.bottleneck}/{f.fix}", "title": describe_learned_fix(f)}
        for f in learned.fixes
    ]
    return [*fixes, *({"id": p.phase, "title": describe_learned_phase(p)} for p in learned.phases)]


def describe_learned_fix(fix: LearnedFix) -> str:
    """Return the learned calibration of a fix, its prior, interval, case count and successes."""
    low, high = fix.interval
    return (
        f"{fix.calibration:.2f} of its estimate, was {PRIOR_SHARE:.2f}; next case {low:.2f} to "
        f"{high:.2f}; {fix.count:.3g} cases, {fix.succeeded} of {fix.measured} faster"
    )


def describe_learned_phase(phase: LearnedPhase) -> str:
    """Return the predicted minutes of a phase in the next session, with their interval."""
    low, point, high = phase.minutes
    return f"{point:.2g} min in the next session, {low:.2g} to {high:.2g}; {phase.count} sessions"


def format_change_lines(changes: Iterable[LearnedChange]) -> Iterator[str]:
    """Yield each changed row with its source sessions, then its numbers, old and new."""
    for what, found in groupby(changes, key=lambda one: one.what):
        rows = list(found)
        yield f"{what} ({', '.join(rows[0].sessions)})"
        for change in rows:
            old, new = _format_number(change.old), _format_number(change.new)
            yield f"  {change.number:17} {old} -> {new}"


def format_pattern_candidate_lines(candidates: Iterable[PatternCandidate]) -> Iterator[str]:
    """Yield one line for each sequence that occurred in several sessions."""
    for one in candidates:
        yield f"  {one.kind}: {one.says} ({len(one.sessions)} sessions: {', '.join(one.sessions)})"


def _format_number(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_format_number, value))}]"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def format_review_template(
    session: Session, day: date, decisions: Sequence[DecisionContext], knowledge: Knowledge
) -> str:
    """Return a review file without verdicts; its comments show what the session decided and why."""
    bottlenecks = {b.id: b for b in knowledge.bottlenecks}
    limits = knowledge.threshold_values
    blocks = (
        "\n".join(["", *_format_decision(number, context, bottlenecks, limits), ""])
        for number, context in enumerate(decisions, 1)
    )
    candidates = [text for entry in session.entries for text in entry.pattern_candidates]
    return _TEMPLATE.format(
        session=session.session,
        reviewer=NO_REVIEWER,
        date=day,
        goals=_comment("Goal", [entry.goal for entry in session.entries]),
        decisions="".join(blocks),
        candidates=_comment("Pattern candidate", candidates),
    )


def format_preview_lines(preview: ReviewPreview, limits: ThresholdValues) -> Iterator[str]:
    """Yield a preview as text.

    Args:
        preview: Of a review file.
        limits: Value of each threshold, for conditions.
    """
    count = f"{len(preview.verdicts)} of {preview.decisions}"
    yield f"{preview.session}: {count} decisions judged in {preview.file}"
    yield from (f"  {_describe_verdict(verdict)}" for verdict in preview.verdicts)
    if preview.changes:
        yield "it changes"
    for change in preview.changes:
        values = f"{_format_value(change.was, limits)} -> {_format_value(change.now, limits)}"
        yield f"  {change.kind} {change.id}, {change.field}: {values}"
        yield f"    why: {_one_line(change.why)}"
    yield from (f"  broken, as the file accepts: {name}" for name in preview.breaks)
    yield from preview.problems
    if preview.problems:
        yield "fix these before you commit the file"
    else:
        result = "passes" if preview.checks else "fails, as it does without the file"
        yield f"kb check {result}; commit the file to accept the review, delete it to undo it"


def _format_decision(
    number: int,
    context: DecisionContext,
    bottlenecks: Mapping[str, Bottleneck],
    limits: ThresholdValues,
) -> Iterator[str]:
    entry, decision, values = context
    yield f"# {number}. {decision.bottleneck} -> {decision.fix}"
    record = entry.model_copy(update={"decisions": (decision,)})
    yield from (f"#    {_one_line(line)}" for line in format_entry_lines(record))
    yield from _format_questions(bottlenecks.get(decision.bottleneck), values, limits)
    variant = f", applied_as: {json.dumps(decision.applied_as)}" if decision.applied_as else ""
    fields = f"bottleneck: {decision.bottleneck}, fix: {decision.fix}{variant}"
    yield f"#- {{{fields}, verdict: right}}"


def _format_questions(
    bottleneck: Bottleneck | None, values: Mapping[str, float], limits: ThresholdValues
) -> Iterator[str]:
    """Yield each comparison of a bottleneck, with its limit on that device and its value."""
    if bottleneck is None:
        yield "#    The knowledge does not have this bottleneck any more."
        return
    yield f"#    Fixes offered, in this order: {', '.join(bottleneck.fixes)}"
    there = {name: values.get(f"limit.{name}", value) for name, value in limits.items()}
    conditions = [bottleneck.when, *(other.when for other in bottleneck.unless)]
    leaves = [leaf for condition in conditions for leaf in iter_comparisons(condition)]
    for leaf in dict.fromkeys(leaves):
        value = values.get(leaf.metric)
        shown = "not measured" if value is None else f"measured {value:.4g}"
        threshold = f" (threshold {leaf.threshold})" if leaf.threshold else ""
        yield f"#    {describe_condition(leaf, there)}{threshold}: {shown}"


def _comment(title: str, texts: Sequence[str]) -> str:
    return "".join(f"# {title}: {text}\n" for text in dict.fromkeys(map(_one_line, texts)))


def _describe_verdict(verdict: Review) -> str:
    text = f"{verdict.verdict:6} {verdict.bottleneck}/{verdict.fix}"
    if verdict.should_have_been:
        text += f", should have been {verdict.should_have_been}"
    return f"{text}: {_one_line(verdict.why)}" if verdict.why else text


def _format_value(value: object, limits: ThresholdValues) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, All | Any | Not | Comparison):
        return describe_condition(value, limits)
    return _one_line(str(value))


def _one_line(text: str) -> str:
    """Return text without line breaks and without characters that YAML forbids in comments."""
    return "".join(char for char in " ".join(text.split()) if char.isprintable())
