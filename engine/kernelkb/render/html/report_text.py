"""Turns text from outside into text for an HTML page, and numbers into short words."""

from __future__ import annotations

from html import escape

from kernelkb.safety.untrusted_text import sanitize_text

_MAX_CHARS = 600


def escape_text(text: str, max_length: int = _MAX_CHARS) -> str:
    """Return text for an element or a quoted attribute: escaped, without hidden characters.

    Args:
        text: Any text, such as a kernel's name; every text of a report passes through here.
        max_length: Characters before escaping; a longer text loses its middle.
    """
    return escape(sanitize_text(text, max_length), quote=True)


def format_share(share: float) -> str:
    """Return a share of 0 to 1 as a percentage with one digit after the point."""
    return f"{100 * share:.1f} %"


def count_bytes(html: str) -> int:
    """Return the size of text as UTF-8."""
    return len(html.encode())
