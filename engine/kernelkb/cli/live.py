"""A line on a terminal that shows what runs and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.project.call_durations import expected_seconds, record_duration

_REFRESHES_PER_S = 4


@contextmanager
def show_live(call: str) -> Iterator[Callable[[str], None]]:
    """Show a line on stderr that ends with the block; the call's time is the next one's forecast.

    Args:
        call: What runs, such as ``bench row_softmax``.

    Yields:
        A function that changes the text.
    """
    key, started = f"kb {get_project_path()} {call}", time.monotonic()
    activity = Activity(call, expected_seconds(key))

    def set_text(text: str) -> None:
        activity.text = text

    console = Console(stderr=True, highlight=False)
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
        return Text(f"{self.text}, {elapsed:.0f} s{about}", overflow="ellipsis", no_wrap=True)
