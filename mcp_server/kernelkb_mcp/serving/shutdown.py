"""Ends this process with all of its children, also while a thread works that cannot be stopped."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import NoReturn


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
