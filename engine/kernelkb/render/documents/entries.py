"""Entries of the knowledge as pages, pictures and YAML, and their conditions in words."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any as Plain
from typing import NamedTuple

import yaml

from kernelkb.graph.picture import Box, Picture, build_tree_picture
from kernelkb.model.base import Record
from kernelkb.model.entries.bottleneck import (
    All,
    Any,
    Bottleneck,
    Comparison,
    Condition,
    Falsifier,
    Not,
    iter_comparisons,
)
from kernelkb.model.entries.fix import Fix, FixCode
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.quantities import Device, Metric
from kernelkb.model.entries.workflow import Pattern, Tree
from kernelkb.units import format_size

ThresholdValues = Mapping[str, float]
"""Maps a threshold's id to its value."""

Metrics = Mapping[str, Metric]
"""Metrics by id."""

CONDITIONS = (All, Any, Not, Comparison)
_SIGNS = {">=": "≥", "<=": "≤", "==": "="}
_FACTS = {"device.cc": "compute capability"}
_MORE_MARK = " –"

_LABELS = {
    "when": "holds when", "hint": "speaks for it", "data": "of its inputs",
    "unless": "look-alikes", "falsifier": "revert unless", "cost_min": "cost in minutes",
    "applies": "applies when", "verify": "it took effect when", "target": "runs on",
    "targets": "runs on", "do": "what to do", "on_line": "at its line", "level": "evidence level",
    "cc": "compute capability", "tdp_w": "power limit in W", "dram_gbps": "memory in GB/s",
    "raw": "counters of the tools", "derive": "computed from", "mma": "matrix instruction",
    "read": "read on", "log_patterns": "in a log", "carveouts_kb": "shared memory in KiB, choices",
}  # fmt: skip
_WORDS = {
    "sm": "SM", "l1": "L1", "l2": "L2", "mhz": "in MHz", "mb": "in MB", "kb": "in KiB",
    "min": "in minutes", "tflops": "TFLOPS", "gbps": "in GB/s", "dram": "memory", "us": "in us",
    "smem": "shared memory in bytes,", "optin": "by opt-in", "gran": "granularity", "xu": "exp",
    "tc": "tensor", "fma": "FMA per clock", "tmem": "tensor memory", "url": "address",
    "cuda": "CUDA",
}  # fmt: skip
"""Words of the names of fields, as people write them."""

_MERMAID_SHAPES = {
    "question": '{{"%s"}}',
    "leaf": '(["%s"])',
    "fix": '("%s")',
    "metric": '[/"%s"/]',
}
_DOT_SHAPES = {"question": "hexagon", "leaf": "oval", "fix": "note", "metric": "parallelogram"}


def describe_condition(
    condition: Condition, limits: ThresholdValues, metrics: Metrics | None = None
) -> str:
    """Return the whole condition, with thresholds replaced by their values.

    Args:
        condition: The condition.
        limits: The values of the thresholds.
        metrics: With them, metrics are called by their titles; None: by their ids.
    """
    match condition:
        case Comparison():
            limit = limits[condition.threshold] if condition.threshold else condition.value
            if metrics is not None:
                return _say_comparison(condition, limit, metrics)
            shown = f"{limit:g}" if isinstance(limit, float) else str(limit)
            return f"{condition.metric} {condition.op} {shown}"
        case All(all=parts):
            return " and ".join(_describe_nested(part, limits, metrics) for part in parts)
        case Any(any=parts):
            return " or ".join(_describe_nested(part, limits, metrics) for part in parts)
    return f"not ({describe_condition(condition.negated, limits, metrics)})"


def _say_comparison(one: Comparison, limit: float | str | None, metrics: Metrics) -> str:
    """Return a comparison as people write it: "over-fetch > 1.5", "not: built for ..."."""
    unit = metrics[one.metric].unit if one.metric in metrics else ""
    title = _say_quantity(one.metric, metrics)
    if unit == "truth" and one.op == "==":
        return title if limit == 1 else f"not: {title}"
    number, of = _say_limit(limit, unit, metrics)
    return f"{title} {_SIGNS.get(one.op, one.op)} {number} {of}".rstrip()


def describe_bound(one: Comparison, limit: float | str | None, metrics: Metrics) -> tuple[str, str]:
    """Return what a comparison requires of its metric, and the unit of it: ``("≥ 40", "%")``."""
    unit = metrics[one.metric].unit if one.metric in metrics else ""
    if unit == "truth" and one.op == "==":
        return ("yes" if limit == 1 else "no"), ""
    number, of = _say_limit(limit, unit, metrics)
    return f"{_SIGNS.get(one.op, one.op)} {number}", of


def _say_limit(limit: float | str | None, unit: str, metrics: Metrics) -> tuple[str, str]:
    """Return a limit without its unit, and its unit as people write it; empty without one."""
    if not isinstance(limit, float):
        return _say_quantity(str(limit), metrics), ""
    if unit == "bytes" and limit.is_integer():
        number, _, unit = format_size(int(limit)).partition(" ")
        return number, unit
    if unit == "share":
        return f"{100 * limit:.4g}", "%"
    units = {"us": "us", "gbps": "GB/s", "seconds": "s", "cycles": "cycles", "bytes": "B"}
    return f"{limit:.6g}", units.get(unit, "")


class LimitRow(NamedTuple):
    """What a condition requires of one metric."""

    metric: str
    """Its id; empty for a fact of a device, which has no entry of its own."""
    title: str
    bound: str
    unit: str
    threshold: str
    """The entry that holds the limit; empty where the condition itself does."""
    source: str
    """Where the threshold is from, in words."""


def list_limits(condition: Condition, knowledge: Knowledge) -> list[LimitRow]:
    """Return the limits in a condition, each once."""
    rows: dict[LimitRow, None] = {}
    metrics = {one.id: one for one in knowledge.catalogue.metrics}
    known = {one.id: one for one in knowledge.thresholds.thresholds}
    for one in iter_comparisons(condition):
        limit = knowledge.threshold_values[one.threshold] if one.threshold else one.value
        title = metrics[one.metric].title if one.metric in metrics else one.metric
        origin = known.get(one.threshold or "")
        said = f"{origin.evidence}: {', '.join(origin.sources)}" if origin else "this entry"
        bound = describe_bound(one, limit, metrics)
        name = one.metric if one.metric in metrics else ""
        rows[LimitRow(name, title, *bound, one.threshold or "", said)] = None
    return list(rows)


def say_conditions(value: object, plain: Plain, knowledge: Knowledge) -> Plain:
    """Return an entry as plain data, each condition and each formula in it in words.

    Args:
        value: A record, or a part of one.
        plain: The same as plain data.
        knowledge: Titles of metrics, and values of thresholds.
    """
    metrics = {one.id: one for one in knowledge.catalogue.metrics}
    if isinstance(value, Falsifier):
        value = Comparison(metric=value.metric, op=value.op, value=value.value)
    if isinstance(value, CONDITIONS):
        return describe_condition(value, knowledge.threshold_values, metrics)
    if isinstance(value, Metric):
        said = [f"{describe_formula(one, metrics)} ({one})" for one in value.derive]
        return {**plain, "derive": said}
    if isinstance(value, Record) and isinstance(plain, dict):
        inner = ((type(value).model_fields[name].alias or name, one) for name, one in value)
        return {k: say_conditions(one, plain[k], knowledge) for k, one in inner if k in plain}
    if isinstance(value, tuple) and isinstance(plain, list) and len(value) == len(plain):
        return [say_conditions(*pair, knowledge) for pair in zip(value, plain, strict=True)]
    return plain


def describe_reason(metric: str, value: float, op: str, limit: float, metrics: Metrics) -> str:
    """Return why a comparison holds, as people write it: "over-fetch is 3.9, > 1.5"."""
    if metric not in metrics or metrics[metric].unit == "truth":
        return f"{_say_quantity(metric, metrics)} {value:.4g} {op} {limit:.4g}"
    unit = metrics[metric].unit
    measured, bound = (
        " ".join(_say_limit(float(f"{x:.4g}"), unit, metrics)).rstrip() for x in (value, limit)
    )
    return f"{_say_quantity(metric, metrics)} is {measured}, {_SIGNS.get(op, op)} {bound}"


def describe_formula(formula: str, metrics: Metrics) -> str:
    """Return a formula with the titles of metrics in the place of their ids."""
    return re.sub(r"[a-z][a-z0-9_.]*", lambda found: _say_quantity(found[0], metrics), formula)


def _say_quantity(name: str, metrics: Metrics) -> str:
    if name not in metrics:
        return _FACTS.get(name, name)
    title = metrics[name].title
    return title[:1].lower() + title[1:] if title[1:2].islower() or title[1:2] == " " else title


def abbreviate_condition(
    condition: Condition,
    limits: ThresholdValues,
    max_parts: int = 2,
    metrics: Metrics | None = None,
) -> str:
    """Return at most ``max_parts`` parts of a condition, with a dash where parts are left out.

    The first parts are kept, because authors put first what a person should look at first.
    """
    match condition:
        case All(all=parts):
            word = " and "
        case Any(any=parts):
            word = " or "
        case _:
            return describe_condition(condition, limits, metrics)
    shown = [abbreviate_condition(part, limits, 1, metrics) for part in parts[:max_parts]]
    whole = len(parts) <= max_parts and not any(sign.endswith(_MORE_MARK) for sign in shown)
    return word.join(sign.removesuffix(_MORE_MARK) for sign in shown) + (
        "" if whole else _MORE_MARK
    )


def _describe_nested(condition: Condition, limits: ThresholdValues, metrics: Metrics | None) -> str:
    text = describe_condition(condition, limits, metrics)
    return text if isinstance(condition, Comparison) else f"({text})"


def label_field(name: str) -> str:
    """Return the name of a field as people write it."""
    return _LABELS.get(name, " ".join(_WORDS.get(word, word) for word in name.split("_")))


def format_mermaid_lines(picture: Picture) -> Iterator[str]:
    """Yield a Mermaid flowchart; nodes and edges on the taken path are drawn thick."""
    names = {box["id"]: f"n{at}" for at, box in enumerate(picture["nodes"])}
    yield "flowchart TD"
    yield from (f"    {names[box['id']]}{_format_mermaid_node(box)}" for box in picture["nodes"])
    for arrow in picture["edges"]:
        line = "==>" if arrow["taken"] else "-->"
        label = f'|"{_escape_mermaid(arrow["label"])}"|' if arrow["label"] else ""
        yield f"    {names[arrow['source']]} {line}{label} {names[arrow['target']]}"
    taken = [names[box["id"]] for box in picture["nodes"] if box["taken"]]
    if taken:
        yield "    classDef taken stroke-width:4px"
        yield f"    class {','.join(taken)} taken"


def format_dot_lines(picture: Picture) -> Iterator[str]:
    """Yield a DOT digraph; nodes and edges on the taken path are drawn thick."""
    yield "digraph {"
    yield f"    label={json.dumps(picture['title'], ensure_ascii=False)};"
    for box in picture["nodes"]:
        width = ", penwidth=4" if box["taken"] else ""
        shape = _DOT_SHAPES.get(box["kind"], "box")
        label = _quote_json(box["label"])
        yield f"    {json.dumps(box['id'])} [label={label}, shape={shape}{width}];"
    for arrow in picture["edges"]:
        width = ", penwidth=4" if arrow["taken"] else ""
        ends = f"{json.dumps(arrow['source'])} -> {json.dumps(arrow['target'])}"
        yield f"    {ends} [label={_quote_json(arrow['label'])}{width}];"
    yield "}"


def _format_mermaid_node(box: Box) -> str:
    shape = _MERMAID_SHAPES.get(box["kind"], '["%s"]')
    return shape.replace("%s", _escape_mermaid(box["label"]))


def _escape_mermaid(text: str) -> str:
    """Escape characters that have a meaning in Mermaid as entities."""
    for mark, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(mark, entity)
    return text.replace("\n", "<br/>")


def _quote_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def format_entry_page(record: Record, knowledge: Knowledge, code: FixCode | None = None) -> str:
    """Return a bottleneck, a fix, a pattern, a tree or a device as Markdown.

    Args:
        record: The entry.
        knowledge: The knowledge that it belongs to.
        code: The code of a fix; None for other entries, and for a fix without code.
    """
    limits = knowledge.threshold_values
    match record:
        case Bottleneck():
            lines = _format_bottleneck(record, knowledge, limits)
        case Fix():
            lines = _format_fix(record, knowledge, limits, code)
        case Pattern():
            lines = _format_pattern(record)
        case Tree():
            lines = _format_tree(record, limits)
        case Device():
            lines = _format_device(record)
        case _:
            raise TypeError(f"no page for a {type(record).__name__}")
    return "\n".join([*lines, *_format_sources(getattr(record, "sources", ()), knowledge)]) + "\n"


def _format_bottleneck(
    b: Bottleneck, knowledge: Knowledge, limits: ThresholdValues
) -> Iterator[str]:
    yield from (f"# {b.title}", "", f"`{b.id}` · {b.group} · {b.target} · evidence {b.level}", "")
    yield from (b.definition, "", "## When", "", describe_condition(b.when, limits))
    if b.hint is not None:
        yield from ("", f"While that is unknown, a hint: {describe_condition(b.hint, limits)}")
    if b.data is not None:
        yield from ("", f"Of its inputs, this explains it: {describe_condition(b.data, limits)}")
    if b.unless:
        yield from ("", "## Look-alikes", "")
        for other in b.unless:
            when = describe_condition(other.when, limits)
            yield f"- {other.bottleneck}, when {when}: {other.because}"
    yield from ("", "## Confirm", "", b.confirm)
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


def _format_fix(
    fix: Fix, knowledge: Knowledge, limits: ThresholdValues, code: FixCode | None
) -> Iterator[str]:
    yield from (f"# {fix.do}", "", f"`{fix.id}` · {', '.join(fix.targets)}", "")
    yield from ("Before:", "", f"    {fix.before}", "", "After:", "", f"    {fix.after}", "")
    yield f"- cost: about {fix.cost_min} minutes with experience"
    yield f"- risk: {fix.risk}" + (f"; {fix.risk_note}" if fix.risk_note else "")
    if fix.when_not:
        yield f"- not when: {fix.when_not}"
    yield f"- applies when: {describe_condition(fix.applies, limits)}"
    if fix.verify:
        yield f"- it took effect when: {fix.verify}"
    yield f"- evidence: {fix.evidence}"
    yield from _format_effects(fix, knowledge)
    if fix.facts:
        yield from ("", "## Facts", "", *_format_bullets(fix.facts))
    if fix.patterns:
        yield from ("", "## How to stay correct", "")
        yield from _format_bullets(f"`{name}`" for name in fix.patterns)
    if code:
        yield from ("", "## Code", "", "```cuda", code.text.rstrip("\n"), "```")
    yield from _format_measured_cases(fix, knowledge)


def _format_effects(fix: Fix, knowledge: Knowledge) -> Iterator[str]:
    """Yield what the fix changes in the model of the time."""
    titles = {effect.id: effect.title for effect in knowledge.effects.effects}
    for effect in fix.effects:
        yield f"- effect `{effect}`: {titles[effect]}"


def _format_measured_cases(fix: Fix, knowledge: Knowledge) -> Iterator[str]:
    """Yield what the fix gave in each pair of the zoo."""
    cases = [case for case in knowledge.measured.cases if case.fix == fix.id]
    yield from ("", "## Measured", "")
    if not cases:
        yield "No measured case."
        return
    gains = sorted(case.speedup for case in cases)
    median = statistics.median(gains)
    yield f"{len(cases)} cases: median {median:.3g}x, {gains[0]:.3g}x to {gains[-1]:.3g}x."
    yield ""
    for case in cases:
        folder = f"kernels/zoo/*/{case.kernel}"
        how = "" if case.timed_by == "bench" else ", profiler durations"
        yield f"- {case.speedup:.3g}x, {case.operation} on {case.device}{how}: `{folder}`"


def _format_pattern(pattern: Pattern) -> Iterator[str]:
    yield from (f"# {pattern.title}", "", f"`{pattern.id}` · evidence {pattern.evidence}", "")
    yield from (pattern.problem, "", pattern.practice)
    yield from ("", "## Triggers", "", *_format_bullets(pattern.triggers))
    yield from ("", "## Steps", "")
    yield from (f"{at}. {step}" for at, step in enumerate(pattern.steps, 1))
    if pattern.conflicts:
        yield from ("", "## Conflicts", "")
        yield from (f"- `{one.pattern}`: {one.resolve}" for one in pattern.conflicts)
    if pattern.origin and pattern.origin.refined_because:
        origin = pattern.origin
        yield from ("", "## Refines", "", f"{origin.rule} {origin.refined_because}")
    if pattern.bottlenecks:
        yield from (
            "",
            "## Helps with",
            "",
            *_format_bullets(f"`{one}`" for one in pattern.bottlenecks),
        )


def _format_tree(tree: Tree, limits: ThresholdValues) -> Iterator[str]:
    yield from (f"# {tree.title}", "", f"`{tree.id}` · {tree.budget_min:g} minutes", "")
    words = {question.id: describe_condition(question.when, limits) for question in tree.questions}
    yield from (
        "```mermaid",
        *format_mermaid_lines(build_tree_picture(tree, None, words)),
        "```",
        "",
        "## Leaves",
        "",
    )
    for leaf in tree.leaves:
        yield f"- `{leaf.id}`, {leaf.verdict}: {leaf.because} {' '.join(leaf.do)}"


def _format_device(device: Device) -> Iterator[str]:
    yield from (f"# {device.title}", "", "| fact | value |", "|---|---|")
    for name, value in device:
        if name not in ("title", "sources", "ceilings") and value is not None:
            shown = ", ".join(value) if isinstance(value, tuple) else value
            yield f"| {label_field(name)} | {shown} |"
    for name, value in device.ceilings or ():
        if value is None or value == ():
            continue
        rows = isinstance(value, tuple)
        shown = ", ".join(": ".join(f"{one:g}" for one in row) for row in value) if rows else value
        yield f"| reached, {label_field(name)} | {shown} |"


def _format_sources(names: Iterable[str], knowledge: Knowledge) -> Iterator[str]:
    sources = {source.id: source for source in knowledge.bibliography.sources}
    yield from ("", "## Sources", "")
    for name in names:
        source = sources[name]
        where = " · ".join(
            filter(None, (source.title, source.section, source.url or source.without_url))
        )
        yield f"- {where} (read {source.read})"


def _format_bullets(lines: Iterable[str]) -> Iterator[str]:
    yield from (f"- {line}" for line in lines)


class _EntryDumper(yaml.SafeDumper):
    """Writes a text of several lines as it stands, not in quotes."""


def _represent_text(dumper: _EntryDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text.rstrip("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_EntryDumper.add_representer(str, _represent_text)


def format_entry_yaml(entry: dict[str, object]) -> str:
    """Return an entry as YAML, its fields in their order.

    Args:
        entry: Plain data.
    """
    text: str = yaml.dump(entry, Dumper=_EntryDumper, sort_keys=False, allow_unicode=True, width=96)
    return text
