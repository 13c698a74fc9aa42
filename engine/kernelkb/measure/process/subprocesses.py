"""Runs child processes under a supervisor, with a timeout, cancellation and clean-up."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kernelkb.progress import end_all_work, raise_if_cancelled

_SUPERVISOR_COMMAND = (sys.executable, "-I", "-S", str(Path(__file__).with_name("supervisor.py")))
_LIVE_SUPERVISORS: set[int] = set()
_TAIL_BYTES = 20_000
"""Of a log, in a ProcessResult: some 200 lines."""
_POLL_S = 0.02
_STDERR = 2
_SUPERVISOR_TIMEOUT_S = 30.0
"""Longer than the 20 s that ``supervisor.py`` gives its own children."""
_SHUTDOWN_TIMEOUT_S = 5.0
"""For the supervisors; then their sessions are killed from here."""

_SCRATCH_FOLDERS: set[str] = set()
_SCRATCH_PREFIX = "kernelkb-job-"
"""Earlier releases, which locked nothing, used another one: theirs may be in use."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_REMOVAL_TIMEOUT_S = 2.0


class ProcessResult(NamedTuple):
    """The end of a child process."""

    returncode: int
    """Exit status; negative: the signal that killed it."""
    timed_out: bool
    seconds: float
    """Wall-clock time."""
    output: str
    """The end of its stdout and stderr, at most 20,000 bytes; empty without a log."""


def run_supervised(
    argv: Sequence[str],
    *,
    log: Path | None,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    to_stderr: bool = False,
) -> ProcessResult:
    """Run a program in a new session, under ``supervisor.py``, and wait for it.

    Its whole process tree is killed at the end, even if that is SIGKILL to this process.

    Args:
        argv: Program and arguments; no shell is involved.
        log: File that receives stdout and stderr; None: they are this process's own.
        timeout_s: Wall-clock limit.
        env: Variables in addition to this process's own.
        cwd: Working directory; None for this process's own.
        to_stderr: Without a log: stdout goes to this process's stderr, too.

    Raises:
        OperationCancelled: The event given to ``cancel_on`` was set.
    """
    with start_supervised(argv, log=log, env=env, cwd=cwd, to_stderr=to_stderr) as program:
        return program.finish(timeout_s)


class SupervisedProgram:
    """A program that was started under ``supervisor.py``.

    One with a pipe as its standard input may wait for a byte there; ``finish`` writes it.
    """

    def __init__(self, child: subprocess.Popen[bytes], log: Path | None) -> None:
        self._child, self._log = child, log

    @property
    def process(self) -> int:
        """The id of its supervisor, which all its processes descend from."""
        return self._child.pid

    def has_ended(self) -> bool:
        """Return whether it has ended."""
        return self._child.poll() is not None

    def finish(self, timeout_s: float) -> ProcessResult:
        """Let it go on, and wait for its end.

        Args:
            timeout_s: Wall-clock limit, from now on; so are the seconds of the result.

        Raises:
            OperationCancelled: The event given to ``cancel_on`` was set.
        """
        started = time.monotonic()
        if self._child.stdin:
            with suppress(OSError):  # it has ended
                os.write(self._child.stdin.fileno(), b"\n")
        timed_out = not _wait_until(self._child, started + timeout_s)
        self.stop()
        seconds = time.monotonic() - started
        output = read_tail(self._log) if self._log else ""
        return ProcessResult(self._child.returncode, timed_out, seconds, output)

    def stop(self) -> None:
        """End it with its whole process tree, unless that was done before."""
        if self._child.pid in _LIVE_SUPERVISORS:
            _stop_supervisor(self._child)
        if self._child.stdin:
            self._child.stdin.close()


@contextmanager
def start_supervised(
    argv: Sequence[str],
    *,
    log: Path | None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    with_input: bool = False,
    to_stderr: bool = False,
) -> Iterator[SupervisedProgram]:
    """Start a program as ``run_supervised`` does; it is ended after the block.

    Args:
        argv: Program and arguments.
        log: File that receives stdout and stderr; None: they are this process's own.
        env: Variables in addition to this process's own.
        cwd: Working directory; None for this process's own.
        with_input: Give it a pipe as its standard input; otherwise that is empty.
        to_stderr: Without a log: stdout goes to this process's stderr, too.

    Raises:
        OperationCancelled: The event given to ``cancel_on`` was set.
    """
    raise_if_cancelled()
    with log.open("wb") if log else nullcontext() as sink:
        child = subprocess.Popen(
            [*_SUPERVISOR_COMMAND, str(os.getpid()), *argv],
            stdin=subprocess.PIPE if with_input else subprocess.DEVNULL,
            stdout=_STDERR if to_stderr else sink,
            stderr=subprocess.STDOUT if sink else None,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )
    _LIVE_SUPERVISORS.add(child.pid)
    program = SupervisedProgram(child, log)
    try:
        yield program
    finally:
        program.stop()


def _kill_session(leader: int) -> None:
    """Kill every process of a session; ninja gives each compiler its own process group."""
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
        raise_if_cancelled()
        if time.monotonic() > deadline:
            return False


def read_tail(log: Path) -> str:
    """Return the end of a log as text; bytes that are not UTF-8 are replaced."""
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


def kill_all() -> None:
    """Kill every running child; call it only right before this process exits.

    From here on no child starts, and threads that wait for one raise ``OperationCancelled``.
    """
    end_all_work()
    supervisors = tuple(_LIVE_SUPERVISORS)
    for pid in supervisors:
        with suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _SHUTDOWN_TIMEOUT_S
    while time.monotonic() < deadline and any(map(_is_running, supervisors)):
        time.sleep(_POLL_S / 4)
    for pid in supervisors:
        _kill_session(pid)


def _is_running(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return fields.rpartition(")")[2].split()[0] not in "ZX"


def _stop_supervisor(child: subprocess.Popen[bytes]) -> None:
    child.terminate()  # the supervisor kills its process tree, then itself
    with suppress(subprocess.TimeoutExpired):
        child.wait(_SUPERVISOR_TIMEOUT_S)
    _kill_session(child.pid)
    child.wait()
    _LIVE_SUPERVISORS.discard(child.pid)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a new folder for one job's files; it is removed afterwards in any case.

    This process holds a lock (flock) on it. Killed, it holds none, and the next one removes it.
    """
    remove_abandoned_folders()
    folder, descriptor = _make_locked_folder()
    try:
        with remove_afterwards(folder):
            yield folder
    finally:
        os.close(descriptor)


def _make_locked_folder() -> tuple[Path, int]:
    """Return a new folder and the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH_PREFIX))
        with suppress(FileNotFoundError):
            descriptor = os.open(folder, _FOLDER_FLAGS)
            with suppress(OSError):  # some network drives have no locks, and nothing is removed
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if folder.exists():
                return folder, descriptor
            os.close(descriptor)  # another process took it for an abandoned one, just before


@cache
def remove_abandoned_folders() -> None:
    """Remove the scratch folders of killed processes of this user, once in this process."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_SCRATCH_PREFIX):
                with suppress(OSError):
                    _remove_if_abandoned(entry.path)


def _remove_if_abandoned(name: str) -> None:
    """Remove a folder of this user that no process holds.

    Raises:
        OSError: It is none, or a process holds it.
    """
    descriptor = os.open(name, _FOLDER_FLAGS)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(name)
    finally:
        os.close(descriptor)


@contextmanager
def remove_afterwards(folder: Path) -> Iterator[Path]:
    """Yield an existing folder; it is removed after this block or when this process ends."""
    _SCRATCH_FOLDERS.add(str(folder))
    try:
        yield folder
    finally:
        remove_tree(folder)
        _SCRATCH_FOLDERS.discard(str(folder))  # not before: ending this process waits for it


def remove_tree(folder: str | Path) -> None:
    """Remove a folder with its contents, at any depth.

    Before Python 3.13 ``shutil.rmtree`` recurses, and a candidate may nest folders deeper than
    the recursion limit.
    """
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", str(folder)], check=False)


def remove_scratch_folders() -> None:
    """Remove every scratch folder, before this process ends.

    A cancelled thread may be removing the same folder, and each may then fail on a file that the
    other removed: so it is tried until the folder is gone, for 2 seconds.
    """
    end = time.monotonic() + _REMOVAL_TIMEOUT_S
    for name in tuple(_SCRATCH_FOLDERS):
        remove_tree(name)
        while os.path.lexists(name) and time.monotonic() < end:
            time.sleep(0.01)
            remove_tree(name)
