"""Text of session reviews: the template of a review file, and the preview of a filled-in one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from kernelkb.model.entries.bottleneck import Bottleneck
from kernelkb.model.entries.condition import All, Any, Comparison, Not, iter_comparisons
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.review import Review, ReviewPreview
from kernelkb.model.records.session import Decision, Session, SessionEntry
from kernelkb.render.documents.conditions import ThresholdValues, describe_condition
from kernelkb.render.text.sessions import format_entry_lines

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


def format_review_template(
    session: Session, day: date, decisions: Sequence[DecisionContext], knowledge: Knowledge
) -> str:
    """Return a review file without verdicts; its comments show what the session decided and why."""
    bottlenecks = {b.id: b for b in knowledge.bottlenecks}
    limits = {t.id: t.value for t in knowledge.thresholds.thresholds}
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
