"""Ends this process with all of its children, also while a thread works that cannot be stopped."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

import kernelkb

END_TIMEOUT_S = 1.5
"""Seconds after the end of the input, or after a signal, in which threads may end by themselves."""
_WATCHER = str(Path(__file__).with_name("watcher.py"))
_WATCHER_VARIABLES = ("LD_LIBRARY_PATH", "TMPDIR", "TEMP", "TMP")
"""For its libraries, and where it finds scratch folders."""


def start_watcher(*, reads_input: bool) -> None:
    """Let a process watch this one, which ends it where it was asked to end and does not.

    Args:
        reads_input: Whether the end of the standard input asks this process to end.
    """
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    packages = str(Path(next(iter(kernelkb.__path__))).parent)
    words = [_WATCHER, str(os.getpid()), str(theirs.fileno()), packages]
    with theirs:
        watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", *words],
            stdin=None if reads_input else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={name: os.environ[name] for name in _WATCHER_VARIABLES if name in os.environ},
            cwd="/",
            start_new_session=True,
        )
    signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_answer_watcher, args=(ours, watcher), daemon=True).start()


def _answer_watcher(channel: socket.socket, watcher: subprocess.Popen[bytes]) -> None:
    """Say that this process runs whenever the watcher asks; end it soon after a signal."""
    events = select.poll()
    events.register(channel, select.POLLIN)
    with suppress(OSError):  # it was ended
        while events.poll() and (asked := channel.recv(64)):
            if max(asked):
                exit_after(END_TIMEOUT_S, 128 + max(asked))
            channel.send(b"\0")
    watcher.wait()


def exit_on_signal(number: int, _frame: FrameType | None) -> None:
    """Exit at once: the event loop may block in a read of standard input."""
    exit_now(128 + number)


def exit_now(code: int) -> NoReturn:
    """End all children, remove scratch folders and exit without waiting for threads.

    A thread may be in the middle of an append to a file; those are atomic.
    """
    kill_children()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def exit_after(seconds: float, code: int) -> None:
    """Exit in so many seconds unless this process ends before."""
    timer = threading.Timer(seconds, exit_now, (code,))
    timer.daemon = True
    timer.start()


def kill_children() -> None:
    """End all children and remove scratch folders; call it only right before the end."""
    from kernelkb.measure.process.subprocesses import kill_all, remove_scratch_folders

    kill_all()
    remove_scratch_folders()
