"""Progress messages of long work, to the listener of the thread that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ProgressListener = Callable[[str], None]

_LISTENER: ContextVar[ProgressListener | None] = ContextVar("listener", default=None)


@contextmanager
def progress_listener(listener: ProgressListener) -> Iterator[None]:
    """Send the progress messages of this thread to ``listener`` inside this block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report_progress(message: str) -> None:
    """Report the current activity in a few words (``bench naive``); ignored without a listener."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(message)
