"""One entry of the knowledge as Markdown that stands alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kernelkb.graph.picture import of_tree
from kernelkb.model.base import Record
from kernelkb.model.bottleneck import Bottleneck
from kernelkb.model.device import Device
from kernelkb.model.fix import Fix
from kernelkb.model.knowledge import Knowledge
from kernelkb.model.pattern import Pattern
from kernelkb.model.tree import Tree
from kernelkb.render.conditions import Limits, said
from kernelkb.render.pictures import mermaid_lines


def entry_page(record: Record, knowledge: Knowledge) -> str:
    """Return a bottleneck, a fix, a pattern, a tree or a device as Markdown."""
    limits = {t.id: t.value for t in knowledge.thresholds.thresholds}
    match record:
        case Bottleneck():
            lines = _bottleneck(record, knowledge, limits)
        case Fix():
            lines = _fix(record, limits)
        case Pattern():
            lines = _pattern(record)
        case Tree():
            lines = _tree(record, limits)
        case Device():
            lines = _device(record)
        case _:
            raise TypeError(f"no page for a {type(record).__name__}")
    return "\n".join([*lines, *_sources(getattr(record, "sources", ()), knowledge)]) + "\n"


def _bottleneck(b: Bottleneck, knowledge: Knowledge, limits: Limits) -> Iterator[str]:
    yield from (f"# {b.title}", "", f"`{b.id}` · {b.group} · {b.target} · evidence {b.level}", "")
    yield from (b.definition, "", "## When", "", said(b.when, limits))
    if b.unless:
        yield from ("", "## What looks like it", "")
        for other in b.unless:
            yield f"- {other.bottleneck}, when {said(other.when, limits)}: {other.because}"
    yield from ("", "## To be sure", "", b.confirm)
    if b.falsifier:
        f = b.falsifier
        yield from ("", f"After the fix {f.metric} must be {f.op} {f.value}; if not, revert it.")
    do = {fix.id: fix.do for family in knowledge.families for fix in family.fixes}
    yield from ("", "## Fixes, in the order to try them", "")
    yield from (f"{at}. `{fix}`: {do[fix]}" for at, fix in enumerate(b.fixes, 1))
    if b.architecture_notes:
        yield from ("", "## Architectures", "", b.architecture_notes)
    yield from ("", "## Cases", "")
    for case in b.cases:
        shown = ", ".join(f"{name} {value:g}" for name, value in case.metrics.items())
        yield f"- {case.name}: {shown} → {case.verdict}"


def _fix(fix: Fix, limits: Limits) -> Iterator[str]:
    yield from (f"# {fix.do}", "", f"`{fix.id}` · {', '.join(fix.targets)}", "")
    yield from ("Before:", "", f"    {fix.before}", "", "After:", "", f"    {fix.after}", "")
    yield f"- cost: about {fix.cost_min} minutes for somebody who has done it before"
    yield f"- risk: {fix.risk}" + (f"; {fix.risk_note}" if fix.risk_note else "")
    if fix.when_not:
        yield f"- not when: {fix.when_not}"
    if fix.applies:
        yield f"- applies when: {said(fix.applies, limits)}"


def _pattern(pattern: Pattern) -> Iterator[str]:
    yield from (f"# {pattern.title}", "", f"`{pattern.id}`", "")
    yield from (pattern.problem, "", pattern.practice)
    yield from ("", "## Remember it at", "", *_list(pattern.triggers))
    yield from ("", "## Steps", "")
    yield from (f"{at}. {step}" for at, step in enumerate(pattern.steps, 1))
    if pattern.conflicts:
        yield from ("", "## Against other patterns", "")
        yield from (f"- `{one.pattern}`: {one.resolve}" for one in pattern.conflicts)
    if pattern.origin and pattern.origin.refined_because:
        origin = pattern.origin
        yield from ("", "## What it refines", "", f"{origin.rule} {origin.refined_because}")
    if pattern.bottlenecks:
        yield from ("", "## Helps with", "", *_list(f"`{one}`" for one in pattern.bottlenecks))


def _tree(tree: Tree, limits: Limits) -> Iterator[str]:
    yield from (f"# {tree.title}", "", f"`{tree.id}` · {tree.budget_min:g} minutes", "")
    words = {question.id: said(question.when, limits) for question in tree.questions}
    yield from ("```mermaid", *mermaid_lines(of_tree(tree, None, words)), "```", "", "## Ends", "")
    for leaf in tree.leaves:
        yield f"- `{leaf.id}`, {leaf.verdict}: {leaf.because} {' '.join(leaf.do)}"


def _device(device: Device) -> Iterator[str]:
    yield from (f"# {device.title}", "", "| fact | value |", "|---|---|")
    for name, value in device:
        if name not in ("title", "sources") and value is not None:
            shown = ", ".join(value) if isinstance(value, tuple) else value
            yield f"| {name} | {shown} |"


def _sources(names: Iterable[str], knowledge: Knowledge) -> Iterator[str]:
    known = {source.id: source for source in knowledge.bibliography.sources}
    yield from ("", "## Sources", "")
    for name in names:
        source = known[name]
        where = " · ".join(filter(None, (source.title, source.section, source.url)))
        yield f"- {where} (read {source.read})"


def _list(lines: Iterable[str]) -> Iterator[str]:
    yield from (f"- {line}" for line in lines)
