"""Formats the quick reference as one HTML file that prints on two A4 pages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from kernelkb.decide.recommend import PERFORMANCE_GATE
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
from kernelkb.render.html.pages import fill_template

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
_GROUP_TITLES = {
    "memory-traffic": "traffic",
    "memory-transactions": "transactions",
    "measurement": "timing",
    "parallelism": "parallel",
    "terminal": "",
}
"""Short enough to stand beside a few rows."""


def format_quickref_sheet(knowledge: Knowledge) -> str:
    """Return the sheet: gate and causes on page 1, hardware, messages and commands on page 2."""
    tree = next(tree for tree in knowledge.trees if tree.id == PERFORMANCE_GATE)
    gate = list(list_gate_rows(tree, knowledge))
    groups = list(_group_causes(knowledge))
    left = _FIRST_PAGE_HEIGHT - len(gate) * _GATE_ROW_HEIGHT
    messages = list(list_message_rows(knowledge))[:_MESSAGES_SHOWN]
    half = -(-len(messages) // 2)
    return fill_template(
        "quickref.html",
        gate=[(_shorten_condition(when), verdict, advice) for when, verdict, advice in gate],
        groups=groups,
        row_height=min(_MAX_ROW_HEIGHT, left / sum(len(causes) for _, causes in groups)),
        architectures=[(a.cc, _shorten_family(a.family)) for a in knowledge.devices.architectures],
        sizes=list_size_rows(knowledge),
        shapes=list_matrix_shapes(knowledge),
        device_columns=DEVICE_COLUMNS,
        devices=list(list_device_rows(knowledge)),
        symptom_count=sum(len(family.symptoms) for family in knowledge.symptoms),
        messages=(messages[:half], messages[half:]),
        commands=COMMANDS,
        recipes=list(_list_recipes(knowledge)),
    )


def _group_causes(
    knowledge: Knowledge,
) -> Iterator[tuple[str, list[tuple[str, str, tuple[str, ...]]]]]:
    """Yield each group of rows of page 1 with its title: those of a GPU, then all of a CPU."""
    for target in ("cuda", "cpu"):
        causes = list_cause_rows(knowledge, target)
        for group, rows in groupby(causes, key=lambda row: "CPU" if target == "cpu" else row.group):
            shown = [(_shorten_condition(row.when), row.cause, row.fixes) for row in rows]
            yield _GROUP_TITLES.get(group, group), shown


def _shorten_condition(condition: str) -> str:
    """Return a condition with mathematical signs; a long one only with its first part."""
    text = condition
    if len(text) > _MAX_CONDITION:
        text = f"{text.partition(' and ')[0].partition(' or ')[0]} –"
    for words, sign in ((">=", "≥"), ("<=", "≤"), ("==", "=")):
        text = text.replace(words, sign)
    return text


def _shorten_family(family: str | None) -> str:
    """Return the last word of a generation's name, which fits a column."""
    name = (family or "").partition(" (")[2].rstrip(")") or family or ""
    return name.rpartition(" ")[2]


def _list_recipes(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    for recipe in knowledge.catalogue.recipes:
        command = recipe.command.replace("{kernel}", "<kernel>")
        if not command.startswith("kb ") and len(command) <= _MAX_COMMAND:
            yield recipe.title, command
