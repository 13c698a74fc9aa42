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


def print_result(line: str | None, cure: str | None) -> None:
    """Print one result, with its cure where there is one."""
    print_lines([*([line] if line else []), *([f"  cure: {cure}"] if cure else [])])


@contextmanager
def interruptible_measurement() -> Iterator[None]:
    """Say on stderr how many others are before us; let signals that end us clean up first."""
    from kernelkb.measure.process.device_queue import WAITING_PREFIX
    from kernelkb.measure.process.progress import progress_listener

    def print_waiting(now: str) -> None:
        if now.startswith(WAITING_PREFIX):
            sys.stderr.write(f"kb: {now}\n")

    with progress_listener(print_waiting), _raise_on_signals():
        yield


@contextmanager
def _raise_on_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP exceptions, as SIGINT is one: children and files go then."""
    import signal
    import threading

    def raise_exit(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # only that one gets signals
        yield
        return
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    for one, handler in before.items():
        if handler != signal.SIG_IGN:  # nohup
            signal.signal(one, raise_exit)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _to_plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in value]
    return value
