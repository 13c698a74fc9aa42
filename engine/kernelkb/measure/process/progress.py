"""Progress events of long work, to the listener of the thread that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple

ProgressKind = Literal["step", "waiting", "notice"]
"""step: what is done now. waiting: others are before us in a queue. notice: a warning."""


class ProgressEvent(NamedTuple):
    """One message about work that is going on."""

    text: str
    """A few words, such as ``bench naive``."""
    kind: ProgressKind = "step"


ProgressListener = Callable[[ProgressEvent], None]

_LISTENER: ContextVar[ProgressListener | None] = ContextVar("listener", default=None)


@contextmanager
def progress_listener(listener: ProgressListener) -> Iterator[None]:
    """Send the progress events of this thread to ``listener`` inside this block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report_progress(text: str, kind: ProgressKind = "step") -> None:
    """Report the current activity in a few words (``bench naive``); ignored without a listener."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(ProgressEvent(text, kind))
