"""Progress and cancellation of long work, for the thread that does it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

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


_RECORDER: ContextVar[Callable[[dict[str, Any]], None] | None] = ContextVar(
    "recorder", default=None
)


@contextmanager
def event_recorder(recorder: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Send all events of this thread, and the results of steps, to ``recorder`` in this block."""
    token = _RECORDER.set(recorder)
    try:
        yield
    finally:
        _RECORDER.reset(token)


def record_event(kind: str, **fields: Any) -> None:
    """Record something for who watches from another process; ignored without a recorder."""
    recorder = _RECORDER.get()
    if recorder is not None:
        recorder({"kind": kind, **fields})


def report_progress(text: str, kind: ProgressKind = "step") -> None:
    """Report the current activity in a few words (``bench naive``); ignored without a listener."""
    record_event(kind, text=text)
    listener = _LISTENER.get()
    if listener is not None:
        listener(ProgressEvent(text, kind))


_CANCEL_EVENT: ContextVar[threading.Event | None] = ContextVar("cancel", default=None)
_SHUTTING_DOWN = threading.Event()


class OperationCancelled(BaseException):
    """The caller cancelled the work. Not an Exception, so that no handler swallows it."""


@contextmanager
def cancel_on(event: threading.Event) -> Iterator[None]:
    """Kill every child started inside this block as soon as ``event`` is set."""
    token = _CANCEL_EVENT.set(event)
    try:
        yield
    finally:
        _CANCEL_EVENT.reset(token)


def sleep_cancellable(seconds: float) -> None:
    """Sleep, or raise at once when the work is cancelled.

    Raises:
        OperationCancelled: The event given to ``cancel_on`` is set, or this process is ending.
    """
    cancel = _CANCEL_EVENT.get()
    if cancel is None:
        time.sleep(seconds)
    else:
        cancel.wait(seconds)
    raise_if_cancelled()


def raise_if_cancelled() -> None:
    """Raise OperationCancelled when the work is cancelled or this process is ending."""
    cancel = _CANCEL_EVENT.get()
    if _SHUTTING_DOWN.is_set() or (cancel is not None and cancel.is_set()):
        raise OperationCancelled


def end_all_work() -> None:
    """Cancel the work of every thread, for good: this process is ending."""
    _SHUTTING_DOWN.set()
