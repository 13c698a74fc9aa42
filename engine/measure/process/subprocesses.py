"""Run a child process that can be timed out, cancelled and cleaned up after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

_CANCEL: ContextVar[threading.Event | None] = ContextVar("cancel", default=None)
_KEEPER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("supervisor.py")))
_LIVE: set[int] = set()
_ENDING = threading.Event()
_TAIL_BYTES = 20_000
_POLL_S = 0.02
_PATIENCE_S = 30.0
"""A keeper's own, and some more."""
_LAST_S = 5.0


class Cancelled(BaseException):
    """Whoever asked no longer wants the answer. Not an Exception, so that nothing handles it."""


class ChildEnd(NamedTuple):
    """How a child ended."""

    returncode: int
    """Negative: the signal that killed it."""
    timed_out: bool
    seconds: float
    output: str
    """The last of what it printed to stdout and stderr."""


@contextmanager
def cancelled_by(event: threading.Event) -> Iterator[None]:
    """Let ``event`` end every child that is started inside this block."""
    token = _CANCEL.set(event)
    try:
        yield
    finally:
        _CANCEL.reset(token)


def pause(seconds: float) -> None:
    """Wait for somebody else.

    Raises:
        Cancelled: The event given to ``cancelled_by`` was set; at once, not when the time is over.
    """
    cancel = _CANCEL.get()
    if cancel is None:
        time.sleep(seconds)
    else:
        cancel.wait(seconds)
    _stop_if_unwanted()


def _stop_if_unwanted() -> None:
    cancel = _CANCEL.get()
    if _ENDING.is_set() or (cancel is not None and cancel.is_set()):
        raise Cancelled


def run_child(
    argv: Sequence[str],
    *,
    log: Path,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> ChildEnd:
    """Run a program in a session of its own, under a ``keeper``, and wait for it.

    Whatever happens (time-out, cancellation, an error, SIGKILL to us) nothing of it survives.

    Args:
        argv: Program and arguments; no shell is involved.
        log: File that receives stdout and stderr.
        timeout_s: Wall-clock limit.
        env: Variables on top of this process's own.
        cwd: Working directory.

    Raises:
        Cancelled: The event given to ``cancelled_by`` was set.
    """
    started = time.monotonic()
    _stop_if_unwanted()
    with log.open("wb") as sink:
        child = subprocess.Popen(
            [*_KEEPER, str(os.getpid()), *argv],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
        _LIVE.add(child.pid)
        try:
            timed_out = not _wait(child, started + timeout_s)
        finally:
            _end_group(child)
    return ChildEnd(child.returncode, timed_out, time.monotonic() - started, tail(log))


def _kill_session(leader: int) -> None:
    """Kill every process of a session: ninja gives each compiler a process group of its own."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text(encoding="ascii", errors="replace")
            if int(fields.rpartition(")")[2].split()[3]) == leader:
                os.kill(int(entry.name), signal.SIGKILL)


def _wait(child: subprocess.Popen[bytes], deadline: float) -> bool:
    """Return whether the child ended before the deadline."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(_POLL_S)
            return True
        _stop_if_unwanted()
        if time.monotonic() > deadline:
            return False


def tail(log: Path) -> str:
    """Return the last of a log as text; bytes that are not UTF-8 are replaced."""
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


def end_all() -> None:
    """End every child that is running now: for whoever is about to end this process.

    From here on nothing else is started: whoever waits for a child, or wants one, is cancelled.
    """
    _ENDING.set()
    asked = tuple(_LIVE)
    for keeper in asked:
        with suppress(OSError):
            os.kill(keeper, signal.SIGTERM)
    end = time.monotonic() + _LAST_S
    while time.monotonic() < end and any(map(_runs, asked)):
        time.sleep(_POLL_S / 4)
    for keeper in asked:
        _kill_session(keeper)


def _runs(process: int) -> bool:
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return fields.rpartition(")")[2].split()[0] not in "ZX"


def _end_group(child: subprocess.Popen[bytes]) -> None:
    child.terminate()  # the keeper ends all that it keeps, and then itself
    with suppress(subprocess.TimeoutExpired):
        child.wait(_PATIENCE_S)
    _kill_session(child.pid)
    child.wait()
    _LIVE.discard(child.pid)
