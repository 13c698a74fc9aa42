"""Fills the templates of HTML pages; text from outside stays text, whatever it holds.

Every page for a screen extends ``templates/base.html``, which needs no network and no script and
forbids both; ``quickref.html`` is for paper.
Charts are macros of ``charts.html``, tables and folded lists of ``parts.html``.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from kernelkb.safety.untrusted_text import sanitize_text
from kernelkb.units import format_duration

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_TEMPLATES = Path(__file__).parent / "templates"
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
    return _load_environment().get_template(name).render(values)


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
