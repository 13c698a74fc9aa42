"""Reviews → text: what a form says of a session, and what accepting it changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kernelkb.model.bottleneck import Bottleneck
from kernelkb.model.condition import All, Any, Comparison, Not, iter_comparisons
from kernelkb.model.knowledge import Knowledge
from kernelkb.model.review import KnowledgeChange, Review, ReviewPreview
from kernelkb.model.session import Decision, SessionEntry
from kernelkb.record.review_form import Prose
from kernelkb.render.conditions import ThresholdValues, describe_condition
from kernelkb.render.decisions import format_decision_outcome

DecisionContext = tuple[SessionEntry, Decision, Mapping[str, float]]
"""A decision, the entry it stands in, and all that this entry's metrics tell."""

_INSTRUCTIONS = """\
Fill in the blocks, then see what accepting them would change: kb session review {0}
Each block is YAML; what stays null or empty says nothing.
A verdict is right, wrong or unsure; should_have_been is bottleneck/fix; a wrong one needs its why.
Corrections are lists of the following, each with its why; device may be left out.

```text
corrections:
- {{change: threshold, threshold: ID, value: 0.25, device: h100-sxm, why: "..."}}
- {{change: condition, bottleneck: ID, only_if: {{metric: ID, op: ">", value: 0.5}}, why: "..."}}
- {{change: condition, bottleneck: ID, also_if: {{metric: ID, op: "<", value: 0.1}}, why: "..."}}
- {{change: fix, bottleneck: ID, fix: ID, move: up, why: "..."}}
- {{change: when-not, fix: ID, when_not: "...", why: "..."}}
- change: pattern
  candidate: "..."
  id: words-with-hyphens
  title: "..."
  problem: "..."
  practice: "..."
  triggers: ["..."]
  steps: ["..."]
  why: "..."
```

A fix moves up, down, first or last, or is withdrawn (move: withdraw).
Cases of the knowledge that may break with it are named under breaks, in the last block."""


_EVIDENCE_STEPS = ("bench", "gate", "profile", "recommend", "compare")
"""Steps that say what a decision rests on."""


def build_prose(
    session: str,
    entries: Sequence[SessionEntry],
    decisions: Sequence[DecisionContext],
    knowledge: Knowledge,
) -> Prose:
    """Return what a form says of a session; a line break in a record never makes one here."""
    known = {b.id: b for b in knowledge.bottlenecks}
    limits = {t.id: t.value for t in knowledge.thresholds.thresholds}
    goals = dict.fromkeys(_collapse_whitespace(entry.goal) for entry in entries)
    found = dict.fromkeys(
        _collapse_whitespace(c) for entry in entries for c in entry.pattern_candidates
    )
    candidates = [f"- Pattern candidate: {candidate}" for candidate in found]
    return Prose(
        head=[
            f"# Review of {session}",
            "",
            *(f"- Goal: {goal}" for goal in goals),
            "",
            *_INSTRUCTIONS.format(session).split("\n"),
        ],
        sections=[
            list(
                _format_section(
                    number, one, known.get(one[1].bottleneck), _device_limits(limits, one[2])
                )
            )
            for number, one in enumerate(decisions, 1)
        ],
        tail=["## The session as a whole", *([""] if candidates else []), *candidates],
    )


def _device_limits(limits: ThresholdValues, values: Mapping[str, float]) -> ThresholdValues:
    """Return the thresholds as they are on the device that was measured on."""
    return {name: values.get(f"limit.{name}", value) for name, value in limits.items()}


def _format_section(
    number: int, context: DecisionContext, bottleneck: Bottleneck | None, limits: ThresholdValues
) -> Iterator[str]:
    entry, decision, values = context
    yield f"## {number}. {decision.bottleneck} -> {decision.fix}"
    yield ""
    where = f" on {_collapse_whitespace(entry.machine)}" if entry.machine else ""
    yield f"- Decided {entry.at:%Y-%m-%d %H:%M} UTC{where}: {_collapse_whitespace(entry.goal)}"
    for step in entry.steps:
        if step.name in _EVIDENCE_STEPS:
            of = f" of {step.variant}" if step.variant else ""
            yield f"- {_collapse_whitespace(step.name)}{of}: {_collapse_whitespace(step.found)}"
    yield f"- {_describe_outcome(decision)}"
    if bottleneck is None:
        yield f"- The knowledge has no bottleneck {decision.bottleneck} now."
        return
    yield f"- Offered for it, in this order: {', '.join(bottleneck.fixes)}"
    yield ""
    yield f"| it asks | measured of {entry.variant or 'it'} |"
    yield "|---|---|"
    leaves = [leaf for part in _list_conditions(bottleneck) for leaf in iter_comparisons(part)]
    for leaf in dict.fromkeys(leaves):
        value = values.get(leaf.metric)
        shown = "not measured" if value is None else f"{value:.4g}"
        named = f", threshold {leaf.threshold}" if leaf.threshold else ""
        yield f"| {describe_condition(leaf, limits)}{named} | {shown} |"


def _list_conditions(bottleneck: Bottleneck) -> list[All | Any | Not | Comparison]:
    return [bottleneck.when, *(other.when for other in bottleneck.unless)]


def _describe_outcome(decision: Decision) -> str:
    tried = f"Applied as {decision.applied_as}" if decision.applied_as else "Nobody tried it"
    return _collapse_whitespace("; ".join((tried, *format_decision_outcome(decision))))


def format_outlook_lines(
    outlook: ReviewPreview, limits: ThresholdValues, *, accepted: bool = False
) -> Iterator[str]:
    """Yield what accepting a form would do, or did.

    Args:
        outlook: What it would do.
        limits: Value of each threshold, as it is before.
        accepted: Whether it was accepted.
    """
    yield f"{outlook.session}: {len(outlook.verdicts)} of {outlook.decisions} decisions judged"
    yield from (f"  {_describe_verdict(verdict)}" for verdict in outlook.verdicts)
    if outlook.changes:
        yield "accepting it changed" if accepted else "accepting it would change"
    for change in outlook.changes:
        described = describe_entry_change(change, limits)
        yield f"  {change.kind} {change.id}, {change.field}: {described}"
        yield f"    why: {_collapse_whitespace(change.why)}"
    yield from (f"  broken, as the form accepts: {name}" for name in outlook.breaks)
    yield from outlook.problems
    if outlook.problems:
        yield "it cannot be accepted"
    elif not accepted:
        check = "would still pass" if outlook.checks else "fails, as it does without the form,"
        yield f"the knowledge {check} in kb check"


def describe_entry_change(change: KnowledgeChange, limits: ThresholdValues) -> str:
    """Return what an entry was and what it is now."""
    return f"{_format_value(change.was, limits)} -> {_format_value(change.now, limits)}"


def _format_value(value: object, limits: ThresholdValues) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, All | Any | Not | Comparison):
        return describe_condition(value, limits)
    return _collapse_whitespace(str(value))


def _describe_verdict(verdict: Review) -> str:
    text = f"{verdict.verdict:6} {verdict.bottleneck}/{verdict.fix}"
    if verdict.should_have_been:
        text += f", should have been {verdict.should_have_been}"
    return f"{text}: {_collapse_whitespace(verdict.why)}" if verdict.why else text


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())
