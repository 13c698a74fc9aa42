"""What a runner can end in, and what it may say of it."""

from __future__ import annotations

import signal

_OUT_OF_MEMORY_PHRASES = ("out of memory", "MemoryError", "can't allocate memory")
_LOAD_FAILURE_PHRASES = (
    "undefined symbol",
    "cannot open shared object",
    "ImportError",
    "ModuleNotFound",
)


class RunnerDied(Exception):
    """A runner ended, hung, grew too large or spoke out of turn; ``status`` says which.

    Attributes:
        runner_name: The runner's name, so that nobody is blamed for another's end.
    """

    def __init__(self, status: str, detail: str, runner_name: str) -> None:
        super().__init__(detail)
        self.runner_name = runner_name
        self.status = status
        self.detail = detail


class RunnerError(Exception):
    """A runner's code reported an error of its own, in its words; nothing was lost.

    Attributes:
        runner_name: The runner's name.
    """

    def __init__(self, message: str, runner_name: str) -> None:
        super().__init__(message)
        self.runner_name = runner_name


class UnsupportedHost(Exception):
    """This machine cannot do what judging needs; nobody's code is to blame. Says the cure too."""


def make_printable(text: object) -> str:
    """Return what a candidate said as a line that cannot pretend to be another one."""
    lines = str(text)[:2000].splitlines()
    return " ".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)


def describe_exit(code: int, log: str, fallback: str | None) -> str:
    """Say how a process ended by itself.

    Args:
        code: Its return code, as ``subprocess`` gives it.
        log: What it printed.
        fallback: What else is known.
    """
    if code < 0:
        return f"it died of {signal.Signals(-code).name}"
    if "Traceback" in log:
        return make_printable(log.strip().splitlines()[-1])
    return fallback or f"it ended the process with status {code}"


def classify_error(message: str) -> str | None:
    """Return the status of an exception after which nothing works any more; None of another one."""
    if any(word in message for word in _OUT_OF_MEMORY_PHRASES):
        return "out-of-memory"
    if any(word in message for word in _LOAD_FAILURE_PHRASES):
        return "unloadable"
    return "crashed" if "CUDA error" in message or "AcceleratorError" in message else None
