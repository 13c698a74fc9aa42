"""Runs the reader of binary reports in a process of its own.

It is native code: on a damaged file it may print, abort its process or not end. A server goes on,
and a command has one line.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TypeVar

from kernelkb.errors import KbError

_TIMEOUT_S = 60.0
"""Chosen: many times what a report of 50 MB takes."""

_Value = TypeVar("_Value")


def has_reader() -> bool:
    """Return whether the ncu-report package is installed."""
    return importlib.util.find_spec("ncu_report") is not None


class ReaderProcess:
    """A process for several calls about one report, which stays loaded there.

    It starts with the first call, and ends with the ``with`` block.
    """

    def __init__(self) -> None:
        """Start nothing yet."""
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None

    def __enter__(self) -> ReaderProcess:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the process."""
        self._end()

    def call(self, function: Callable[..., _Value], path: Path, *arguments: object) -> _Value:
        """Return what a function returns for a report.

        Args:
            function: Of a module; it, its arguments and its value can be pickled.
            path: The report, its first argument.
            arguments: The others.

        Raises:
            KbError: As the function raises it; or the process was ended, or did not answer.
        """
        _, connection = self._running = self._running or _start()
        try:
            connection.send((function, path, *arguments))
            if not connection.poll(_TIMEOUT_S):
                self._end()
                raise KbError(f"reading {path} takes over {_TIMEOUT_S:.0f} s; is it damaged?")
            value, error = connection.recv()
        except (EOFError, OSError):
            self._end()
            raise KbError(f"{path} ends the program that reads it; is it damaged?") from None
        if error is not None:
            raise KbError(error)
        result: _Value = value
        return result

    def _end(self) -> None:
        if self._running is not None:
            process, connection = self._running
            self._running = None
            connection.close()
            process.kill()
            process.wait()


def _start() -> tuple[subprocess.Popen[bytes], Connection]:
    ours, theirs = Pipe()
    with theirs:
        words = [sys.executable, "-P", "-m", __name__, str(theirs.fileno())]
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    return process, ours


def read_in_process(
    function: Callable[..., _Value],
    path: Path,
    *arguments: object,
    reader: ReaderProcess | None = None,
) -> _Value:
    """Return and raise as ``ReaderProcess.call``; without one in a process for this call."""
    with ExitStack() as stack:
        process = reader or stack.enter_context(ReaderProcess())
        return process.call(function, path, *arguments)


def main() -> None:
    """Answer the requests of the parent, until it closes its end."""
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    with Connection(descriptor) as connection:
        while True:
            try:
                function, *arguments = connection.recv()
            except EOFError:
                return
            try:
                answer: tuple[object, str | None] = (function(*arguments), None)
            except KbError as error:
                answer = (None, str(error))
            connection.send(answer)


if __name__ == "__main__":
    main()
