"""Prints an answer on a terminal: verdict, cause, line and fix stand out, and lines are wrapped."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

_STYLES = (
    (re.compile(r"^(?:.*: )?(STOP)(?= \()"), "bold red"),
    (re.compile(r"^(?:.*: )?(CAUTION)(?= \()"), "bold yellow"),
    (re.compile(r"^(?:.*: )?(CONTINUE|DONE)(?= \()"), "bold green"),
    (re.compile(r"^\d+\. ([a-z0-9-]+)(?=, confidence)"), "bold cyan"),
    (re.compile(r"^ +(?:at|and) (\S+:\d+)"), "bold"),
    (re.compile(r"^ +\d+ \| (.*)"), "bold"),
    (re.compile(r"^ +fix ([a-z0-9-]+)"), "bold green"),
    (re.compile(r"^(kernel +time .*)"), "bold"),
)
"""What stands out, and how; the group of each pattern is styled."""
_INDENT = 2
_MAX_INDENT = 24


def print_styled_lines(lines: Iterable[str]) -> None:
    """Print lines, wrapped at the terminal's width and indented where they go on."""
    console = Console(highlight=False)
    for line in lines:
        for part in _wrap_line(console, _style_line(line)):
            console.print(part, soft_wrap=True)


def _style_line(line: str) -> Text:
    text = Text(line)
    for pattern, style in _STYLES:
        if found := pattern.match(line):
            text.stylize(style, found.start(1), found.end(1))
    return text


def _wrap_line(console: Console, text: Text) -> list[Text]:
    plain = text.plain
    indent = min(len(plain) - len(plain.lstrip()) + _INDENT, _MAX_INDENT, console.width // 2)
    if len(plain) <= console.width:
        return [text]
    first, *rest = text.wrap(console, console.width)
    if not rest:
        return [first]
    tail = text[len(first.plain.rstrip()) :]
    tail = tail[len(tail.plain) - len(tail.plain.lstrip()) :]
    following = tail.wrap(console, console.width - indent)
    return [first, *(Text(" " * indent) + one for one in following)]
