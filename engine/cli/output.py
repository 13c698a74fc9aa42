"""Plain lines and JSON, the same on a terminal and in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel


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


@contextmanager
def interruptible_measurement() -> Iterator[None]:
    """Print to stderr how many wait before us for the device; clean up on SIGTERM and SIGHUP."""
    from kernelkb.measure.process.progress import ProgressEvent, progress_listener

    def print_waiting(event: ProgressEvent) -> None:
        if event.kind == "waiting":
            sys.stderr.write(f"kb: {event.text}\n")

    with progress_listener(print_waiting), _raise_on_signals():
        yield


@contextmanager
def _raise_on_signals() -> Iterator[None]:
    """Raise SystemExit on SIGTERM and SIGHUP, so that children are killed and files removed."""
    import signal
    import threading

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
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in value]
    return value
