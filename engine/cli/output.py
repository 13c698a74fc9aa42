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
def waiting_shown() -> Iterator[None]:
    """Say on stderr how many others are before us, as long as there are any."""
    from engine.measure.turns import WAITING
    from engine.measure.watching import watched_by

    def heard(now: str) -> None:
        if now.startswith(WAITING):
            sys.stderr.write(f"kb: {now}\n")

    with watched_by(heard):
        yield


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
