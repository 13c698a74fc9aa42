"""Formats the diagnoses of one kernel, and what else its answer says, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kernelkb.decide.conditions import format_comparison
from kernelkb.render.html.report_text import escape_text, format_share
from kernelkb.render.text.answers import format_speedup
from kernelkb.render.text.source_lines import describe_line

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import Advice, Diagnosis, KernelAnswer, Reason
    from kernelkb.model.entries.source_line import LineAnswer, SourceLine

_MAX_DIAGNOSES = 6
_MAX_REASONS = 12
_MAX_FURTHER = 12


def pick_first_line(diagnoses: Sequence[Diagnosis]) -> SourceLine | None:
    """Return the line with the largest share of the first cause; None without one."""
    first = next((one for one in diagnoses if one["verdict"] == "matches"), None)
    lines = first["lines"]["lines"] if first and first["lines"] else []
    return lines[0] if lines else None


def format_diagnoses(answer: KernelAnswer, anchors: Mapping[str, str]) -> Iterator[str]:
    """Yield each cause with its evidence, its lines, its fix and what would prove it wrong.

    Args:
        answer: Of one kernel.
        anchors: By file, the beginning of the anchors of its lines.
    """
    matches = [one for one in answer["diagnoses"] if one["verdict"] == "matches"]
    unknown = [one["bottleneck"] for one in answer["diagnoses"] if one["verdict"] != "matches"]
    yield "<h3>Causes</h3>"
    if not matches:
        yield "<p>No cause can be named from these numbers.</p>"
    for number, diagnosis in enumerate(matches[:_MAX_DIAGNOSES], 1):
        yield from _format_diagnosis(number, diagnosis, anchors)
    if matches[_MAX_DIAGNOSES:]:
        names = ", ".join(escape_text(one["bottleneck"], 80) for one in matches[_MAX_DIAGNOSES:])
        yield f"<p>Also: {names}</p>"
    if unknown:
        names = ", ".join(escape_text(name, 80) for name in unknown)
        left = answer["open_count"] - len(unknown)
        more = f" and {left} more" if left > 0 else ""
        yield f'<p class="muted">Still possible: {names}{more}.</p>'


def _format_diagnosis(
    number: int, diagnosis: Diagnosis, anchors: Mapping[str, str]
) -> Iterator[str]:
    gain = diagnosis["predicted_speedup"]
    told = f", predicted {format_speedup(gain)}" if gain else ""
    yield f'<article class="diagnosis"><h4>{number}. {escape_text(diagnosis["bottleneck"], 80)}'
    yield f'<span class="muted"> confidence {diagnosis["confidence"]:.2f}{told}</span></h4><dl>'
    yield from _format_lines(diagnosis["lines"], anchors)
    reasons = [_format_reason(reason) for reason in diagnosis["because"][:_MAX_REASONS]]
    yield from _format_entry("because", "<br>".join(reasons))
    yield from _format_entry("not", _format_ruled_out(diagnosis))
    for fix in diagnosis["fixes"][:1]:
        yield from _format_entry("fix", _format_fix(fix))
    names = [escape_text(fix["id"], 80) for fix in diagnosis["fixes"][1:]]
    yield from _format_entry("then", ", ".join(names))
    falsifier = diagnosis["falsifier"]
    if falsifier:
        yield from _format_entry("revert unless", f"<b>{escape_text(falsifier['expect'])}</b>")
    yield "</dl></article>"


def _format_entry(name: str, html: str) -> Iterator[str]:
    """Yield one entry of the list, whose value is HTML already; none for an empty value."""
    if html:
        yield f"<dt>{name}</dt><dd>{html}</dd>"


def _format_lines(answer: LineAnswer | None, anchors: Mapping[str, str]) -> Iterator[str]:
    if answer is None:
        return
    if answer["reason"]:
        yield from _format_entry("no line", escape_text(answer["reason"]))
    for at, line in enumerate(answer["lines"]):
        yield from _format_entry("and" if at else "line", _format_line(line, anchors))


def _format_line(line: SourceLine, anchors: Mapping[str, str]) -> str:
    told = escape_text(describe_line(line), 300)
    start = anchors.get(line["at"]["file"])
    link = f'<a href="#{start}{line["at"]["line"]}">{told}</a>' if start else told
    text = escape_text(line["at"]["text"] or line["at"]["instruction"], 160)
    waiting = line["waiting"]
    waits = f'<br><span class="muted">line {waiting["line"]} waits for it</span>' if waiting else ""
    return f"{link}<br><code>{text}</code>{waits}"


def _format_reason(reason: Reason) -> str:
    comparison = format_comparison(reason["metric"], reason["value"], reason["op"], reason["limit"])
    source = escape_text(reason["source"], 200)
    return f'{escape_text(comparison, 120)} <span class="muted">({source})</span>'


def _format_ruled_out(diagnosis: Diagnosis) -> str:
    rows = diagnosis["ruled_out"][:_MAX_REASONS]
    if not rows:
        return ""
    listed = "<br>".join(
        f"{escape_text(row['bottleneck'], 80)}: {escape_text(row['because'], 200)}" for row in rows
    )
    one = "1 similar cause was" if len(rows) == 1 else f"{len(rows)} similar causes were"
    return (
        f'<details><summary>{one} ruled out</summary><span class="muted">{listed}</span></details>'
    )


def _format_fix(fix: Advice) -> str:
    gain = fix["predicted_speedup"]
    told = f", {format_speedup(gain)}" if gain else ""
    not_when = f"; not when {escape_text(fix['when_not'], 300)}" if fix["when_not"] else ""
    return (
        f"<b>{escape_text(fix['id'], 80)}</b>{told}: {escape_text(fix['do'])}<br>"
        f"before <code>{escape_text(fix['before'], 200)}</code>, "
        f"after <code>{escape_text(fix['after'], 200)}</code><br>"
        f'<span class="muted">about {fix["cost_min"]} min, risk {escape_text(fix["risk"], 20)}'
        f"{_describe_measured(fix)}{not_when}</span>"
    )


def _describe_measured(fix: Advice) -> str:
    found = fix["measured"]
    if found is None:
        return ""
    times = "once" if found["count"] == 1 else f"{found['count']} times"
    return f"; measured {times}, median {found['median']:.3g}x"


def format_further(answer: KernelAnswer) -> Iterator[str]:
    """Yield what to do next, what is suppressed, and what Nsight Compute says, to be opened."""
    rows = [
        ("Next steps", [escape_text(text) for text in answer["next"]]),
        ("Measure next", _list_commands(answer)),
        ("Suppressed advice", _list_suppressed(answer)),
        ("Nsight Compute says", _list_rules(answer)),
    ]
    for title, texts in rows:
        if texts:
            items = "".join(f"<li>{text}</li>" for text in _cut_list(texts))
            yield f'<details class="more"><summary>{title}</summary><ul>{items}</ul></details>'


def _cut_list(texts: Sequence[str]) -> Iterable[str]:
    left = len(texts) - _MAX_FURTHER
    return [*texts[:_MAX_FURTHER], *([f"{left} more"] if left > 0 else [])]


def _list_commands(answer: KernelAnswer) -> list[str]:
    commands: dict[str, list[str]] = {}
    for row in answer["measure_next"]:
        commands.setdefault(row["command"], []).append(escape_text(row["metric"], 80))
    return [
        f"{', '.join(metrics)}<br><code>{escape_text(command)}</code>"
        for command, metrics in commands.items()
    ]


def _list_suppressed(answer: KernelAnswer) -> list[str]:
    told = []
    for row in answer["suppressed"]:
        what = f"{row['fix']} for {row['bottleneck']}" if row["fix"] else row["bottleneck"]
        told.append(escape_text(f"{what} ({row['guard']}): {row['because']}"))
    return told


def _list_rules(answer: KernelAnswer) -> list[str]:
    """Return Nsight Compute's rules with an estimate, the largest share of the kernel first."""
    rules = [(share, rule) for rule in answer["ncu_rules"] if (share := rule["removes"])]
    rules.sort(key=lambda row: (row[1]["scope"] != "kernel", -row[0]))
    return [
        f"{escape_text(rule['rule'], 80)}: {format_share(share)} of "
        f"{'the time' if rule['scope'] == 'kernel' else 'the time of one unit'}: "
        f"{escape_text(rule['says'].partition('. ')[0], 400)}"
        for share, rule in rules
    ]
