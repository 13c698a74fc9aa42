"""What only a terminal gets: styled answers, and a line that shows what runs and for how long."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from kernelkb.safety.untrusted_text import StyledStream, remove_hidden

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
    console = make_console()
    for line in lines:
        for part in _wrap_line(console, _style_line(line)):
            console.print(part, soft_wrap=True)


def make_console(*, stderr: bool = False, soft_wrap: bool = False) -> Console:
    """Return a console; what is printed to it is clean text."""
    stream = cast("TextIO", StyledStream(sys.stderr if stderr else sys.stdout))
    return Console(file=stream, highlight=False, soft_wrap=soft_wrap)


def make_text(text: str) -> Text:
    """Return text without what a terminal would obey."""
    return Text(remove_hidden(text))


def _style_line(line: str) -> Text:
    text = make_text(line)
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


_REFRESHES_PER_S = 4


@contextmanager
def show_live(call: str) -> Iterator[Callable[[str], None]]:
    """Show a line on stderr that ends with the block; the call's time is the next one's forecast.

    Args:
        call: What runs, such as ``bench row_softmax``.

    Yields:
        A function that changes the text.
    """
    from kernelkb.actions.project.bench_target import get_project_path
    from kernelkb.measure.machine.cached_facts import expected_seconds, record_duration

    key, started = f"kb {get_project_path()} {call}", time.monotonic()
    activity = Activity(call, expected_seconds(key))

    def set_text(text: str) -> None:
        activity.text = text

    console = make_console(stderr=True)
    live = Live(
        Spinner("dots", text=activity),
        console=console,
        transient=True,
        refresh_per_second=_REFRESHES_PER_S,
        redirect_stdout=False,
    )
    with live:
        yield set_text
    record_duration(key, time.monotonic() - started)


class Activity:
    """A line such as ``bench naive, 12 s of about 30 s``, made anew for each picture."""

    def __init__(self, text: str, expected_s: float | None = None) -> None:
        self.text, self._expected_s, self._started = text, expected_s, time.monotonic()

    def __rich__(self) -> Text:
        elapsed = time.monotonic() - self._started
        forecast = self._expected_s or 0
        about = f" of about {forecast:.0f} s" if forecast > elapsed else ""
        text = f"{remove_hidden(self.text)}, {elapsed:.0f} s{about}"
        return Text(text, overflow="ellipsis", no_wrap=True)
