"""Fills the templates of HTML pages; text from outside stays text, whatever it holds.

``format_quickref_sheet`` makes the quick reference as one file that prints on two A4 pages.

Every page for a screen extends ``templates/base.html``, which needs no network and no script and
forbids both; ``quickref.html`` is for paper.
Charts are macros of ``charts.html``, tables and folded lists of ``parts.html``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

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
from kernelkb.safety.untrusted_text import sanitize_text
from kernelkb.units import format_duration

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from markupsafe import Markup

_TEMPLATES = Path(__file__).parent / "templates"
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
_MAX_CHARS = 600
"""Of a text that a template prints without a limit of its own."""


def fill_template(name: str, **values: object) -> str:
    """Return a page.

    Args:
        name: File below ``templates/``.
        values: What the template names. A text among them is sanitized and escaped when it is
            printed; one of more than 600 characters loses its middle, unless the template cuts it
            elsewhere with ``|cut(LENGTH)``.
    """
    return load_template(name).render(values)


def load_template(name: str) -> Template:
    """Return a template, compiled once: that takes up to 200 ms."""
    return _load_environment().get_template(name)


@lru_cache(maxsize=1)
def _load_environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # 30 ms, for pages alone

    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=_clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(
        cut=cut_text, share=format_share, duration=format_duration, number=format_number
    )
    return made


def _clean(value: object) -> object:
    """Return text without hidden characters; numbers, and what is escaped already, as they are."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return sanitize_text(value, _MAX_CHARS)
    return value


def cut_text(text: str, max_length: int = _MAX_CHARS) -> Markup:
    """Return text for an element or a quoted attribute: escaped, without hidden characters.

    Args:
        text: Any text, such as a kernel's name.
        max_length: Characters before escaping; a longer text loses its middle.
    """
    from markupsafe import escape

    return escape(sanitize_text(text, max_length))


def format_share(share: float) -> str:
    """Return a share of 0 to 1 as a percentage with one digit after the point."""
    return f"{100 * share:.1f} %"


def format_number(value: float) -> str:
    """Return a number with three digits, and commas between thousands."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 1e3 else f"{value:.3g}"


def count_bytes(html: str) -> int:
    """Return the size of text as UTF-8."""
    return len(html.encode())


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
