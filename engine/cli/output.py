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
    sys.stdout.write(json.dumps(_plain(value), indent=2, allow_nan=False) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print plain lines."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def print_result(line: str | None, cure: str | None) -> None:
    """Print one result, with its cure where there is one."""
    print_lines([*([line] if line else []), *([f"  cure: {cure}"] if cure else [])])


@contextmanager
def measuring() -> Iterator[None]:
    """Say on stderr how many others are before us; let signals that end us clean up first."""
    from kernelkb.measure.process.device_queue import WAITING
    from kernelkb.measure.process.progress import watched_by

    def heard(now: str) -> None:
        if now.startswith(WAITING):
            sys.stderr.write(f"kb: {now}\n")

    with watched_by(heard), _ended_in_order():
        yield


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Make SIGTERM and SIGHUP exceptions, as SIGINT is one: children and files go then."""
    import signal
    import threading

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # only that one gets signals
        yield
        return
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    for one, handler in before.items():
        if handler != signal.SIG_IGN:  # nohup
            signal.signal(one, end)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
