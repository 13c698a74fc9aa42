"""Formats the quick reference as one HTML file that prints on two A4 pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby

from kernelkb.decide.gates import PERFORMANCE_GATE
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.render.documents.quickref import (
    COMMANDS,
    DEVICE_COLUMNS,
    list_cause_rows,
    list_device_rows,
    list_gate_rows,
    list_matrix_shapes,
    list_message_rows,
    list_size_rows,
)

_FIRST_PAGE_HEIGHT = 738.0
"""Points of page 1 for the rows of gate and causes: 799 within the margins, less headings."""
_GATE_ROW_HEIGHT = 10.4
_MAX_ROW_HEIGHT = 10.6
_MESSAGES_SHOWN = 30
"""Most messages on the sheet; kb diagnose knows all."""
_MAX_CONDITION = 58
"""Characters of a condition on the sheet; a longer one keeps its first part."""
_MAX_COMMAND = 190
"""Characters of a command that is shown; ``kb recommend`` prints the longer ones."""

_STYLE = """
@page { size: A4 portrait; margin: 7mm 8mm; }
* { box-sizing: border-box; }
html { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
body { margin: 0 auto; width: 194mm; color: #16202b;
  font: 6.6pt/1.25 "Helvetica Neue", Arial, "Liberation Sans", sans-serif; }
section.page { height: 282mm; overflow: hidden; page-break-after: always; }
section.page:last-child { page-break-after: auto; }
h1 { font-size: 13pt; margin: 0 0 1mm; color: #0b3d62; }
h1 small { font-size: 7pt; font-weight: normal; color: #56646f; margin-left: 3mm; }
h2 { font-size: 8pt; margin: 1.8mm 0 0.7mm; padding: 0.4mm 1.4mm; color: #fff;
  background: #0b3d62; }
table { border-collapse: collapse; width: 100%; }
td, th { padding: 0 1.1mm; text-align: left; vertical-align: middle; white-space: nowrap;
  overflow: hidden; text-overflow: ellipsis; }
thead th { color: #56646f; font-weight: normal; border-bottom: 0.3mm solid #0b3d62; }
tbody tr:nth-child(even) td { background: #f0f4f7; }
code { font: 0.96em "DejaVu Sans Mono", Menlo, Consolas, monospace; }
b { color: #a33a00; }
.causes td { height: var(--row); font-size: var(--font); border-bottom: 0.1mm solid #dde4e9; }
.causes { table-layout: fixed; }
.causes .when { width: 43%; } .causes .cause { width: 23%; font-weight: bold; color: #0b3d62; }
.causes th.group { width: 4.2mm; padding: 0; background: #dfe8ef; color: #0b3d62;
  writing-mode: vertical-rl; transform: rotate(180deg); text-align: center; font-size: 6pt;
  border-top: 0.3mm solid #fff; overflow: visible; }
.stop { color: #b00020; font-weight: bold; } .done { color: #0a7a33; font-weight: bold; }
.caution { color: #a35a00; font-weight: bold; } .continue { color: #0b5cad; font-weight: bold; }
.numbers td:not(:first-child), .numbers th:not(:first-child) { text-align: right; }
.columns { display: flex; gap: 3mm; } .columns > * { flex: 1; min-width: 0; overflow: hidden; }
.sizes, .gpus, .messages, .commands { table-layout: fixed; }
.sizes td { height: 8.9pt; }
.sizes thead th, .gpus thead th { font-size: 5.9pt; padding: 0 0.4mm; }
.sizes th:first-child { width: 37mm; }
.gpus td { height: 8.5pt; } .gpus th:first-child { width: 27mm; }
.messages td:first-child { width: 60%; } .commands td:first-child { width: 65%; }
.lists td { height: 8.4pt; line-height: 1.15; } .lists td, .lists code { font-size: 5.8pt; }
.whole td { white-space: normal; }
.note { color: #56646f; margin: 0.6mm 0 0; }
"""


def format_quickref_sheet(knowledge: Knowledge) -> str:
    """Return the sheet: gate and causes on page 1, hardware, messages and commands on page 2."""
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8"><title>KernelKB quick reference</title>',
            f"<style>{_STYLE}</style></head><body>",
            *_format_first_page(knowledge),
            *_format_second_page(knowledge),
            "</body></html>\n",
        )
    )


def _format_first_page(knowledge: Knowledge) -> Iterator[str]:
    yield '<section class="page">'
    yield "<h1>KernelKB<small>a CUDA kernel is slow: is the number real, what limits it, "
    yield "what to change first</small></h1>"
    yield "<h2>1. Is the number real, and is there anything left to gain?</h2>"
    yield '<table class="lists"><tbody>'
    tree = next(tree for tree in knowledge.trees if tree.id == PERFORMANCE_GATE)
    gate = list(list_gate_rows(tree, knowledge))
    for condition, verdict, advice in gate:
        yield (
            f"<tr><td><code>{_shorten_condition(condition)}</code></td>"
            f'<td class="{verdict}">{verdict}</td><td>{escape(advice)}</td></tr>'
        )
    yield "</tbody></table>"
    yield "<h2>2. What the numbers say → what it is → what to change first</h2>"
    rows = [row for target in ("cuda", "cpu") for row in _group_causes(knowledge, target)]
    count = sum(len(causes) for _, causes in rows)
    left = _FIRST_PAGE_HEIGHT - len(gate) * _GATE_ROW_HEIGHT
    height = min(_MAX_ROW_HEIGHT, left / count)
    yield f'<table class="causes" style="--row:{height:.2f}pt;--font:{height * 0.68:.2f}pt">'
    yield '<colgroup><col style="width:4.2mm"><col class="when"><col class="cause"><col></colgroup>'
    for group, causes in rows:
        yield "<tbody>"
        for position, (when, cause, fixes) in enumerate(causes):
            label = f'<th class="group" rowspan="{len(causes)}">{group}</th>'
            yield (
                f"<tr>{'' if position else label}"
                f'<td class="when"><code>{_shorten_condition(when)}</code></td>'
                f'<td class="cause">{cause}</td><td>{" · ".join(fixes)}</td></tr>'
            )
        yield "</tbody>"
    yield "</table>"
    yield '<p class="note">A dash: more conditions. <code>kb show ID</code> has all of them, the '
    yield "look-alikes, the code of each fix, and the sources.</p></section>"


def _shorten_condition(condition: str) -> str:
    """Return a condition with mathematical signs; a long one only with its first part."""
    text = condition
    if len(text) > _MAX_CONDITION:
        text = f"{text.partition(' and ')[0].partition(' or ')[0]} –"
    for words, sign in ((">=", "≥"), ("<=", "≤"), ("==", "=")):
        text = text.replace(words, sign)
    return escape(text)


def _group_causes(
    knowledge: Knowledge, target: str
) -> Iterator[tuple[str, list[tuple[str, str, tuple[str, ...]]]]]:
    causes = list_cause_rows(knowledge, target)
    if target == "cpu":
        yield "CPU", [(row.when, row.cause, row.fixes) for row in causes]
        return
    for group, rows in groupby(causes, key=lambda row: row.group):
        yield _GROUP_TITLES.get(group, group), [(r.when, r.cause, r.fixes) for r in rows]


_GROUP_TITLES = {
    "memory-traffic": "traffic",
    "memory-transactions": "transactions",
    "measurement": "timing",
    "parallelism": "parallel",
    "terminal": "",
}
"""Short enough to stand beside a few rows."""


def _format_second_page(knowledge: Knowledge) -> Iterator[str]:
    yield '<section class="page">'
    yield from _format_hardware(knowledge)
    found = [symptom for family in knowledge.symptoms for symptom in family.symptoms]
    yield f"<h2>5. What a log says → kb show … (kb diagnose FILE knows {len(found)})</h2>"
    yield '<div class="columns">'
    rows = list(list_message_rows(knowledge))[:_MESSAGES_SHOWN]
    half = -(-len(rows) // 2)
    for part in (rows[:half], rows[half:]):
        cells = ((f"<code>{escape(text)}</code>", symptom) for text, symptom in part)
        yield from _format_table("lists messages", (), cells)
    yield '</div><div class="columns"><div style="flex:1.7"><h2>6. Commands</h2>'
    lines = ((f"<code>{escape(command)}</code>", gives) for command, gives in COMMANDS)
    yield from _format_table("lists whole commands", (), lines)
    yield '</div><div style="flex:1.2"><h2>7. Measure</h2>'
    yield from _format_table("lists whole", (), _list_recipes(knowledge))
    yield "</div></div></section>"


def _format_hardware(knowledge: Knowledge) -> Iterator[str]:
    yield "<h2>3. Sizes, rates per SM and latencies, by compute capability</h2>"
    archs = knowledge.devices.architectures
    head = [f"<b>{a.cc}</b><br>{_shorten_family(a.family)}" for a in archs]
    rows = ((row.label, *row.values) for row in list_size_rows(knowledge))
    yield from _format_table("numbers sizes", ["", *head], rows)
    shapes = "; ".join(
        f"{', '.join(ccs)}: <code>{escape(shape)}</code>"
        for shape, ccs in list_matrix_shapes(knowledge).items()
    )
    yield f'<p class="note">Widest matrix instruction, fp16: {shapes}.</p>'
    yield '<p class="note">Everywhere: warp 32, 1024 threads and 16 barriers per block, 255 '
    yield "registers per thread, 48 KiB of static shared memory, 32 banks of 4 bytes, sectors of "
    yield "32 bytes in lines of 128. Clusters: in brackets with non-portable sizes. Latencies: one "
    yield "dependent load, from one study of A100, RTX 4090 and H100. A dot: no source.</p>"
    yield "<h2>4. GPUs: memory in GB/s, dense peaks in TFLOPS, ridge of fp16 in FLOP per byte</h2>"
    yield from _format_table("numbers gpus", DEVICE_COLUMNS, list_device_rows(knowledge))


def _shorten_family(family: str | None) -> str:
    """Return the last word of a generation's name, which fits a column."""
    name = (family or "").partition(" (")[2].rstrip(")") or family or ""
    return escape(name.rpartition(" ")[2])


def _list_recipes(knowledge: Knowledge) -> Iterator[tuple[str, ...]]:
    for recipe in knowledge.catalogue.recipes:
        command = recipe.command.replace("{kernel}", "<kernel>")
        if not command.startswith("kb ") and len(command) <= _MAX_COMMAND:
            yield (f"{escape(recipe.title)}<br><code>{escape(command)}</code>",)


def _format_table(style: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield a table; its cells are HTML already."""
    yield f'<table class="{style}">'
    titles = "".join(f"<th>{title}</th>" for title in head)
    if titles:
        yield f"<thead><tr>{titles}</tr></thead>"
    yield "<tbody>"
    yield from (f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    yield "</tbody></table>"
