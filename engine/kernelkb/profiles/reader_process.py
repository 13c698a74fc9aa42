"""Reads what is from outside in a process of its own, which can be ended.

The reader of binary reports is native code: on a damaged file it may print, abort its process or
not end. A regular expression holds Python's lock while it matches a text. A server goes on, and a
command has one line.
"""

from __future__ import annotations

import fcntl
import functools
import gc
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TypeVar

from kernelkb.errors import KbError
from kernelkb.progress import raise_if_cancelled

_TIMEOUT_S = 60.0
"""Chosen: many times what a report of 50 MB takes."""
_POLL_S = 0.05
"""So soon a cancelled call ends the process."""

_INSTALLED = ("/opt/nvidia/nsight-compute/*", "/usr/local/cuda*/nsight-compute-*")
"""Folders of ncu, where its installers put them."""

_Value = TypeVar("_Value")


def has_reader() -> bool:
    """Return whether the ncu-report package is there: installed, or beside ncu."""
    return importlib.util.find_spec("ncu_report") is not None or _find_beside_ncu()


@functools.cache
def _find_beside_ncu() -> bool:
    """Let the package of ncu be imported, if a process can: it has machine code."""
    ncu = shutil.which("ncu")
    installed = sorted(chain.from_iterable(map(glob.glob, _INSTALLED)), reverse=True)
    homes = [*([Path(ncu).resolve().parent] if ncu else []), *map(Path, installed)]
    for folder in (home / "extras" / "python" for home in homes):
        if (folder / "ncu_report.py").is_file() and _can_import(folder):
            sys.path.append(str(folder))
            return True
    return False


def _can_import(folder: Path) -> bool:
    program = f"import sys; sys.path.insert(0, {str(folder)!r}); import ncu_report"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=False)
    return not done.returncode


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

    def call(
        self,
        function: Callable[..., _Value],
        *arguments: object,
        name: str | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> _Value:
        """Return what a function returns.

        Args:
            function: Of a module; it, its arguments and its value can be pickled.
            arguments: Its arguments; the path of a report first.
            name: What errors say that it reads; the first argument by default.
            timeout_s: Seconds after which the process is ended.

        Raises:
            KbError: As the function raises it; or the process was ended, or did not answer.
            OperationCancelled: The event given to ``cancel_on`` was set.
        """
        _, connection = self._running = self._running or _start()
        what = name or str(arguments[0])
        try:
            connection.send((function, *arguments))
            deadline = time.monotonic() + timeout_s
            while not connection.poll(_POLL_S):
                raise_if_cancelled()
                if time.monotonic() > deadline:
                    self._end()
                    raise KbError(f"reading {what} takes over {timeout_s:.0f} s; is it damaged?")
            value, error = connection.recv()
        except (EOFError, OSError):
            self._end()
            raise KbError(f"{what} ends the program that reads it; is it damaged?") from None
        except BaseException:  # its answer may come later
            self._end()
            raise
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
    *arguments: object,
    name: str | None = None,
    reader: ReaderProcess | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> _Value:
    """Return and raise as ``ReaderProcess.call``; without one in a process for this call."""
    with ExitStack() as stack:
        process = reader or stack.enter_context(ReaderProcess())
        return process.call(function, *arguments, name=name, timeout_s=timeout_s)


def main() -> None:
    """Answer the requests of the parent, until it closes its end; that ends a call, too."""
    gc.disable()  # it ends with its report; collecting took a third of the time of a large trace
    has_reader()  # finds the one beside ncu
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    with Connection(descriptor) as connection:
        while True:
            try:
                function, *arguments = connection.recv()
            except EOFError:
                return
            try:
                # With nobody to answer, the kernel sends SIGIO, which ends this process.
                fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_ASYNC)
                answer: tuple[object, str | None] = (function(*arguments), None)
            except KbError as error:
                answer = (None, str(error))
            finally:
                fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
            connection.send(answer)


if __name__ == "__main__":
    main()
