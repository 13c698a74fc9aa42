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

_CANCEL_EVENT: ContextVar[threading.Event | None] = ContextVar("cancel", default=None)
_SUPERVISOR_COMMAND = (sys.executable, "-I", "-S", str(Path(__file__).with_name("supervisor.py")))
_LIVE_SUPERVISORS: set[int] = set()
_SHUTTING_DOWN = threading.Event()
_TAIL_BYTES = 20_000
_POLL_S = 0.02
_SUPERVISOR_TIMEOUT_S = 30.0
"""A keeper's own, and some more."""
_SHUTDOWN_TIMEOUT_S = 5.0


class OperationCancelled(BaseException):
    """Whoever asked no longer wants the answer. Not an Exception, so that nothing handles it."""


class ProcessResult(NamedTuple):
    """How a child ended."""

    returncode: int
    """Negative: the signal that killed it."""
    timed_out: bool
    seconds: float
    output: str
    """The last of what it printed to stdout and stderr."""


@contextmanager
def cancel_on(event: threading.Event) -> Iterator[None]:
    """Let ``event`` end every child that is started inside this block."""
    token = _CANCEL_EVENT.set(event)
    try:
        yield
    finally:
        _CANCEL_EVENT.reset(token)


def sleep_cancellable(seconds: float) -> None:
    """Wait for somebody else.

    Raises:
        Cancelled: The event given to ``cancelled_by`` was set; at once, not when the time is over.
    """
    cancel = _CANCEL_EVENT.get()
    if cancel is None:
        time.sleep(seconds)
    else:
        cancel.wait(seconds)
    _raise_if_cancelled()


def _raise_if_cancelled() -> None:
    cancel = _CANCEL_EVENT.get()
    if _SHUTTING_DOWN.is_set() or (cancel is not None and cancel.is_set()):
        raise OperationCancelled


def run_supervised(
    argv: Sequence[str],
    *,
    log: Path,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> ProcessResult:
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
    _raise_if_cancelled()
    with log.open("wb") as sink:
        child = subprocess.Popen(
            [*_SUPERVISOR_COMMAND, str(os.getpid()), *argv],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
        _LIVE_SUPERVISORS.add(child.pid)
        try:
            timed_out = not _wait_until(child, started + timeout_s)
        finally:
            _stop_supervisor(child)
    return ProcessResult(child.returncode, timed_out, time.monotonic() - started, read_tail(log))


def _kill_session(leader: int) -> None:
    """Kill every process of a session: ninja gives each compiler a process group of its own."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text(encoding="ascii", errors="replace")
            if int(fields.rpartition(")")[2].split()[3]) == leader:
                os.kill(int(entry.name), signal.SIGKILL)


def _wait_until(child: subprocess.Popen[bytes], deadline: float) -> bool:
    """Return whether the child ended before the deadline."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(_POLL_S)
            return True
        _raise_if_cancelled()
        if time.monotonic() > deadline:
            return False


def read_tail(log: Path) -> str:
    """Return the last of a log as text; bytes that are not UTF-8 are replaced."""
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


def kill_all() -> None:
    """End every child that is running now: for whoever is about to end this process.

    From here on nothing else is started: whoever waits for a child, or wants one, is cancelled.
    """
    _SHUTTING_DOWN.set()
    asked = tuple(_LIVE_SUPERVISORS)
    for keeper in asked:
        with suppress(OSError):
            os.kill(keeper, signal.SIGTERM)
    end = time.monotonic() + _SHUTDOWN_TIMEOUT_S
    while time.monotonic() < end and any(map(_is_running, asked)):
        time.sleep(_POLL_S / 4)
    for keeper in asked:
        _kill_session(keeper)


def _is_running(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return fields.rpartition(")")[2].split()[0] not in "ZX"


def _stop_supervisor(child: subprocess.Popen[bytes]) -> None:
    child.terminate()  # the keeper ends all that it keeps, and then itself
    with suppress(subprocess.TimeoutExpired):
        child.wait(_SUPERVISOR_TIMEOUT_S)
    _kill_session(child.pid)
    child.wait()
    _LIVE_SUPERVISORS.discard(child.pid)
