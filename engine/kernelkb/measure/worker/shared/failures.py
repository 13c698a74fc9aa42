"""Ways in which a runner process can fail, and the text and status of each."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import NamedTuple

from kernelkb.measure.worker.shared.messages.specs import HostGap, RunnerFailure, RunnerStatus

# Texts of torch, Python, glibc and the CUDA driver.
_OUT_OF_MEMORY_PHRASES = ("out of memory", "MemoryError", "can't allocate memory")
_LOAD_FAILURE_PHRASES = (
    "undefined symbol",
    "cannot open shared object",
    "ImportError",
    "ModuleNotFound",
)
_MAX_TEXT_CHARS = 2000
_LOG_TAIL_BYTES = 4000


class KernelError(Exception):
    """In a runner: its code returned an error code, or outputs of another type, shape or dtype."""


class RunnerDied(Exception):
    """A runner process ended, hung, exceeded a limit or broke the message protocol.

    Attributes:
        runner_name: Which runner.
        status: In which of these ways.
        detail: What happened, as a sentence.
        exit_status: Of a process that ended by ``exit`` without an exception; else None.
        was_killed: Whether another process than the judge ended it.
    """

    def __init__(
        self,
        status: RunnerStatus,
        detail: str,
        runner_name: str,
        exit_status: int | None = None,
        *,
        was_killed: bool = False,
    ) -> None:
        super().__init__(detail)
        self.was_killed = was_killed
        self.runner_name = runner_name
        self.status = status
        self.detail = detail
        self.exit_status = exit_status

    def to_message(self, case: str | None = None) -> RunnerFailure:
        """Return it as a part of a result."""
        return {
            "status": self.status,
            "detail": self.detail,
            "exit_status": self.exit_status,
            "case": case,
        }


class RunnerError(Exception):
    """A runner's code reported an error or raised an exception; its process goes on.

    Attributes:
        runner_name: Which runner.
    """

    def __init__(self, message: str, runner_name: str) -> None:
        super().__init__(message)
        self.runner_name = runner_name

    def to_message(self, status: RunnerStatus, case: str | None = None) -> RunnerFailure:
        """Return it as a part of a result."""
        return {"status": status, "detail": str(self), "exit_status": None, "case": case}


class UnsupportedHost(Exception):
    """This machine lacks something that measuring needs; no candidate caused it.

    Attributes:
        gap: What is missing.
        cure: What to do about it; None: inspect the machine.
    """

    def __init__(self, gap: str, cure: str | None = None) -> None:
        super().__init__(f"{gap}; {cure}" if cure else gap)
        self.gap, self.cure = gap, cure

    def to_message(self) -> HostGap:
        """Return it as a part of a result."""
        return {"gap": self.gap, "cure": self.cure}


class ProcessExit(NamedTuple):
    """How a process ended by itself."""

    detail: str
    exit_status: int | None
    """None where a signal or an exception ended it."""


def make_printable(text: object) -> str:
    """Return a candidate's text as one line without control characters, 2000 characters at most."""
    lines = str(text)[:_MAX_TEXT_CHARS].splitlines()
    return " ".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)


def name_signal(number: int) -> str:
    """Return the name of a signal; most real-time signals have only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def read_log_tail(file: int) -> str:
    """Return the end of a log, 4000 bytes at most, by its descriptor; empty if it is closed."""
    with suppress(OSError, ValueError):
        offset = max(0, os.fstat(file).st_size - _LOG_TAIL_BYTES)
        return os.pread(file, _LOG_TAIL_BYTES, offset).decode("utf-8", "replace")
    return ""


def describe_exit(returncode: int, log: str, fallback: str | None) -> ProcessExit:
    """Describe how a process ended by itself.

    Args:
        returncode: As ``subprocess`` gives it: negative for a signal.
        log: What the process printed.
        fallback: Detail for an exit without a signal and without an exception in the log.
    """
    if returncode < 0:
        return ProcessExit(f"it died of {name_signal(-returncode)}", None)
    if "Traceback" in log:
        return ProcessExit(make_printable(log.strip().splitlines()[-1]), None)
    return ProcessExit(fallback or f"it ended the process with status {returncode}", returncode)


def classify_error(message: str) -> RunnerStatus | None:
    """Return the status of an exception that leaves the process unusable; None for others."""
    if any(phrase in message for phrase in _OUT_OF_MEMORY_PHRASES):
        return "out-of-gpu-memory" if "CUDA" in message else "out-of-memory"
    if any(phrase in message for phrase in _LOAD_FAILURE_PHRASES):
        return "unloadable"
    return "crashed" if "CUDA error" in message or "AcceleratorError" in message else None
