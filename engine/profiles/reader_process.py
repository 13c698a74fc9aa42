"""Runs the reader of binary reports in a process of its own.

It is native code: on a damaged file it may print, abort its process or not end. A server goes on,
and a command has one line.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kernelkb.errors import KbError

_TIMEOUT_S = 60.0
"""Chosen: many times what a report of 50 MB takes."""

_Value = TypeVar("_Value")


def has_reader() -> bool:
    """Return whether the ncu-report package is installed."""
    return importlib.util.find_spec("ncu_report") is not None


def read_in_process(function: Callable[..., _Value], path: Path, *arguments: object) -> _Value:
    """Return what a function returns for a report.

    Args:
        function: Of a module; it, its arguments and its value can be pickled.
        path: The report, its first argument.
        arguments: The others.

    Raises:
        KbError: As the function raises it; or its process was ended, or did not end.
    """
    words = [sys.executable, "-P", "-m", __name__]
    request = pickle.dumps((function, path, *arguments))
    try:
        done = subprocess.run(
            words, input=request, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise KbError(f"reading {path} takes over {_TIMEOUT_S:.0f} s; is it damaged?") from None
    if done.returncode:
        raise KbError(f"{path} ends the program that reads it; is it damaged?")
    value, error = pickle.loads(done.stdout)  # noqa: S301 of our own process
    if error is not None:
        raise KbError(error)
    result: _Value = value
    return result


def main() -> None:
    """Answer the request on standard input, on standard output."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answer:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # native code may print
        function, *arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 of our parent
        try:
            pickle.dump((function(*arguments), None), answer)
        except KbError as error:
            pickle.dump((None, str(error)), answer)


if __name__ == "__main__":
    main()
