"""Reviews → text: what a form says of a session, and what accepting it changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kernelkb.model.bottleneck import Bottleneck
from kernelkb.model.condition import All, Any, Comparison, Not, comparisons
from kernelkb.model.knowledge import Knowledge
from kernelkb.model.review import Changed, Outlook, Review
from kernelkb.model.session import Decision, Entry
from kernelkb.record.review_form import Prose
from kernelkb.render.conditions import Limits, said
from kernelkb.render.decisions import came_of

Made = tuple[Entry, Decision, Mapping[str, float]]
"""A decision, the entry it stands in, and all that this entry's metrics tell."""

_HOW = """\
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


_SEEN = ("bench", "gate", "profile", "recommend", "compare")
"""Steps that say what a decision rests on."""


def prose(session: str, entries: Sequence[Entry], made: Sequence[Made], all_of: Knowledge) -> Prose:
    """Return what a form says of a session; a line break in a record never makes one here."""
    known = {b.id: b for b in all_of.bottlenecks}
    limits = {t.id: t.value for t in all_of.thresholds.thresholds}
    goals = dict.fromkeys(_line(entry.goal) for entry in entries)
    found = dict.fromkeys(_line(c) for entry in entries for c in entry.pattern_candidates)
    candidates = [f"- Pattern candidate: {candidate}" for candidate in found]
    return Prose(
        head=[
            f"# Review of {session}",
            "",
            *(f"- Goal: {goal}" for goal in goals),
            "",
            *_HOW.format(session).split("\n"),
        ],
        sections=[
            list(_section(number, one, known.get(one[1].bottleneck), _on_device(limits, one[2])))
            for number, one in enumerate(made, 1)
        ],
        tail=["## The session as a whole", *([""] if candidates else []), *candidates],
    )


def _on_device(limits: Limits, values: Mapping[str, float]) -> Limits:
    """Return the thresholds as they are on the device that was measured on."""
    return {name: values.get(f"limit.{name}", value) for name, value in limits.items()}


def _section(
    number: int, made: Made, bottleneck: Bottleneck | None, limits: Limits
) -> Iterator[str]:
    entry, decision, values = made
    yield f"## {number}. {decision.bottleneck} -> {decision.fix}"
    yield ""
    where = f" on {_line(entry.machine)}" if entry.machine else ""
    yield f"- Decided {entry.at:%Y-%m-%d %H:%M} UTC{where}: {_line(entry.goal)}"
    for step in entry.steps:
        if step.name in _SEEN:
            of = f" of {step.variant}" if step.variant else ""
            yield f"- {_line(step.name)}{of}: {_line(step.found)}"
    yield f"- {_gave(decision)}"
    if bottleneck is None:
        yield f"- The knowledge has no bottleneck {decision.bottleneck} now."
        return
    yield f"- Offered for it, in this order: {', '.join(bottleneck.fixes)}"
    yield ""
    yield f"| it asks | measured of {entry.variant or 'it'} |"
    yield "|---|---|"
    leaves = [leaf for part in _conditions(bottleneck) for leaf in comparisons(part)]
    for leaf in dict.fromkeys(leaves):
        value = values.get(leaf.metric)
        shown = "not measured" if value is None else f"{value:.4g}"
        named = f", threshold {leaf.threshold}" if leaf.threshold else ""
        yield f"| {said(leaf, limits)}{named} | {shown} |"


def _conditions(bottleneck: Bottleneck) -> list[All | Any | Not | Comparison]:
    return [bottleneck.when, *(other.when for other in bottleneck.unless)]


def _gave(decision: Decision) -> str:
    tried = f"Applied as {decision.applied_as}" if decision.applied_as else "Nobody tried it"
    return _line("; ".join((tried, *came_of(decision))))


def outlook_lines(outlook: Outlook, limits: Limits, *, done: bool = False) -> Iterator[str]:
    """Yield what accepting a form would do, or did.

    Args:
        outlook: What it would do.
        limits: Value of each threshold, as it is before.
        done: Whether it was accepted.
    """
    yield f"{outlook.session}: {len(outlook.verdicts)} of {outlook.decisions} decisions judged"
    yield from (f"  {_judged(verdict)}" for verdict in outlook.verdicts)
    if outlook.changes:
        yield "accepting it changed" if done else "accepting it would change"
    for change in outlook.changes:
        yield f"  {change.kind} {change.id}, {change.field}: {changed_said(change, limits)}"
        yield f"    why: {_line(change.why)}"
    yield from (f"  broken, as the form accepts: {name}" for name in outlook.breaks)
    yield from outlook.problems
    if outlook.problems:
        yield "it cannot be accepted"
    elif not done:
        check = "would still pass" if outlook.checks else "fails, as it does without the form,"
        yield f"the knowledge {check} in kb check"


def changed_said(change: Changed, limits: Limits) -> str:
    """Return what an entry was and what it is now."""
    return f"{_value(change.was, limits)} -> {_value(change.now, limits)}"


def _value(value: object, limits: Limits) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, All | Any | Not | Comparison):
        return said(value, limits)
    return _line(str(value))


def _judged(verdict: Review) -> str:
    text = f"{verdict.verdict:6} {verdict.bottleneck}/{verdict.fix}"
    if verdict.should_have_been:
        text += f", should have been {verdict.should_have_been}"
    return f"{text}: {_line(verdict.why)}" if verdict.why else text


def _line(text: str) -> str:
    return " ".join(text.split())
