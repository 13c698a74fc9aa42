"""Finds processes by their command line, and sets the signal handling of child processes."""

import signal
import time
from pathlib import Path


def find_processes(word):
    """Return live processes (no zombies) with a word in their command line, as /proc paths."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = read_cmdline(entry)
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError):
            continue
        if word in line and state not in "ZX":
            found.append(entry)
    return found


def read_cmdline(entry):
    """Return the command line of a process; empty when the process has just ended."""
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def wait_for_count(word, count):
    """Wait until so many processes name a word; return False if they do not within 2 minutes."""
    end = time.monotonic() + 120
    while len(find_processes(word)) != count:
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def reset_signals():
    """Restore default signal handling; a ``preexec_fn`` for children that tests send signals to.

    A child inherits ignored signals: ``nohup`` ignores SIGHUP, and background jobs ignore SIGINT.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def ignore_signals():
    """Ignore the signals that ``nohup`` and background jobs ignore; a ``preexec_fn``."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)


def wait_until(condition, limit_s=120):
    """Wait for something that takes seconds, and has a busy machine's time."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
