"""Run a child process that can be timed out, cancelled and cleaned up after."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

_CANCEL: ContextVar[threading.Event | None] = ContextVar("cancel", default=None)
_LIVE: set[int] = set()
_TAIL_BYTES = 20_000
_POLL_S = 0.02


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


def run_child(
    argv: Sequence[str],
    *,
    log: Path,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> ChildEnd:
    """Run a program in a process group of its own and wait for it.

    Whatever happens (time-out, cancellation, an exception here) nothing of the group survives.

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
    with log.open("wb") as sink:
        child = subprocess.Popen(
            argv,
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
    seconds = time.monotonic() - started
    return ChildEnd(child.returncode, timed_out, seconds, tail(log))


def _kill_session(leader: int) -> None:
    """Kill every process of a session: ninja gives each compiler a process group of its own."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text(encoding="ascii", errors="replace")
            if int(fields.rpartition(")")[2].split()[3]) == leader:
                os.kill(int(entry.name), signal.SIGKILL)


def _wait(child: subprocess.Popen[bytes], deadline: float) -> bool:
    """Return whether the child ended before the deadline."""
    cancel = _CANCEL.get()
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(_POLL_S)
            return True
        if cancel is not None and cancel.is_set():
            raise Cancelled
        if time.monotonic() > deadline:
            return False


def tail(log: Path) -> str:
    """Return the last of a log as text; bytes that are not UTF-8 are replaced."""
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


def end_all() -> None:
    """Kill every group that is running now: for whoever is about to end this process."""
    for session in tuple(_LIVE):
        _kill_session(session)


def _end_group(child: subprocess.Popen[bytes]) -> None:
    _kill_session(child.pid)  # also what the child itself left behind
    child.wait()
    _LIVE.discard(child.pid)
