"""Who watches a piece of work, and is told what it does now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ProgressListener = Callable[[str], None]

_LISTENER: ContextVar[ProgressListener | None] = ContextVar("listener", default=None)


@contextmanager
def progress_listener(listener: ProgressListener) -> Iterator[None]:
    """Let ``listener`` hear what is done inside this block, in this thread."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report_progress(message: str) -> None:
    """Say what is being done now, in a few words: ``bench naive``; nobody need listen."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(message)
