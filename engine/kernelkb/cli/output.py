"""Plain lines and JSON, the same on a terminal and in a pipe."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kernelkb.progress import ProgressEvent, progress_listener


def print_json(value: Any) -> None:
    """Print records, lists of records or plain data as one JSON value."""
    sys.stdout.write(json.dumps(_to_plain(value), indent=2, allow_nan=False) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print plain lines."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def print_progress(line: str) -> None:
    """Print a line to stderr at once, while a long command runs."""
    sys.stderr.write(f"kb: {line}\n")
    sys.stderr.flush()


def print_record(record: Any, lines: Iterable[str], *, as_json: bool) -> int:
    """Print a record as JSON, or else the lines that show it; return exit status 0."""
    if as_json:
        print_json(record)
    else:
        print_lines(lines)
    return 0


def print_result(line: str | None, cure: str | None) -> None:
    """Print one result, with its cure where there is one."""
    print_lines([*([line] if line else []), *([f"  cure: {cure}"] if cure else [])])


NOTHING_RECORDED = "interrupted: nothing was recorded"
PARTLY_RECORDED = "interrupted: the steps that ended are recorded, this one is not"


@contextmanager
def interruptible_measurement(
    shown: str | None = None, *, interrupted: str = NOTHING_RECORDED
) -> Iterator[None]:
    """Print to stderr how many wait before us for the device; clean up on Ctrl-C and signals.

    Args:
        shown: What runs, such as ``bench row_softmax``; shown on a terminal with the elapsed time.
        interrupted: What Ctrl-C prints.
    """

    def show_event(event: ProgressEvent) -> None:
        update(event.text)
        if event.kind in ("waiting", "notice"):
            sys.stderr.write(f"kb: {event.text}\n")

    try:
        with _raise_on_signals(), show_activity(shown) as update, progress_listener(show_event):
            yield
    except KeyboardInterrupt:
        print_progress(interrupted)
        raise


@contextmanager
def show_activity(shown: str | None) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what runs, for how long, and how long it took before; silent elsewhere.

    Args:
        shown: What runs; None to show nothing.

    Yields:
        A function that changes the text.
    """
    if shown is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from kernelkb.cli.terminal import show_live

    with show_live(shown) as update:
        yield update


@contextmanager
def _raise_on_signals() -> Iterator[None]:
    """Raise SystemExit on SIGTERM and SIGHUP, so that children are killed and files removed."""

    def raise_exit(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # where signals arrive
        yield
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, exit statuses of children are lost
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in previous.items():
        if handler != signal.SIG_IGN:  # nohup
            signal.signal(number, raise_exit)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _to_plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # a record; importing pydantic to ask would take 70 ms
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in value]
    return value
