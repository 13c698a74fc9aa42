"""What a runner can end in, and what it may say of it."""

from __future__ import annotations

import signal

_NO_MEMORY = ("out of memory", "MemoryError", "can't allocate memory")
_NO_LIBRARY = ("undefined symbol", "cannot open shared object", "ImportError", "ModuleNotFound")


class RunnerLost(Exception):
    """A runner ended, hung, grew too large or spoke out of turn; ``status`` says which.

    Attributes:
        who: The runner's name, so that nobody is blamed for another's end.
    """

    def __init__(self, status: str, detail: str, who: str) -> None:
        super().__init__(detail)
        self.who = who
        self.status = status
        self.detail = detail


class Refused(Exception):
    """A runner's code reported an error of its own, in its words; nothing was lost.

    Attributes:
        who: The runner's name.
    """

    def __init__(self, said: str, who: str) -> None:
        super().__init__(said)
        self.who = who


class Unfit(Exception):
    """This machine cannot do what judging needs; nobody's code is to blame. Says the cure too."""


def printable(said: object) -> str:
    """Return what a candidate said as a line that cannot pretend to be another one."""
    lines = str(said)[:2000].splitlines()
    return " ".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)


def detail_of(code: int, log: str, otherwise: str | None) -> str:
    """Say how a process ended by itself.

    Args:
        code: Its return code, as ``subprocess`` gives it.
        log: What it printed.
        otherwise: What else is known.
    """
    if code < 0:
        return f"it died of {signal.Signals(-code).name}"
    if "Traceback" in log:
        return printable(log.strip().splitlines()[-1])
    return otherwise or f"it ended the process with status {code}"


def status_of_error(said: str) -> str | None:
    """Return the status of an exception after which nothing works any more; None of another one."""
    if any(word in said for word in _NO_MEMORY):
        return "out-of-memory"
    if any(word in said for word in _NO_LIBRARY):
        return "unloadable"
    return "crashed" if "CUDA error" in said or "AcceleratorError" in said else None
