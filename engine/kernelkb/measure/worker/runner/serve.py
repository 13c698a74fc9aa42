"""The runner process: runs a candidate or rival on commands of the judge.

The judge owns inputs, outputs, the order of calls and the clock that decides. Times that this
process reports are compared with that clock, never trusted alone.
"""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from kernelkb.measure.worker.runner.openmp import load_openmp_first
from kernelkb.measure.worker.shared.channel import receive_with_files, send
from kernelkb.measure.worker.shared.failures import KernelError
from kernelkb.measure.worker.shared.messages.runner_commands import Handler, ServeJob
from kernelkb.measure.worker.shared.quick_imports import import_quickly

_MAX_EXCEPTION_CHARS = 2000
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def serve(job: ServeJob, _folder: Path) -> dict[str, Any]:
    """Answer the judge's commands until it closes the channel."""
    if job["adopts_orphans"]:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    handlers = _make_handlers(job)
    channel = socket.socket(fileno=job["channel"])
    while True:
        try:
            command, files = receive_with_files(channel)
        except EOFError:
            return {}
        answer: dict[str, Any] = {"sequence": command["sequence"]}
        try:
            answer |= handlers[command["command"]](command, files)
        except KernelError as error:
            answer["kernel_error"] = str(error)
        except Exception as error:  # of the candidate's code; the judge classifies it
            answer["exception"] = f"{type(error).__name__}: {error}"[:_MAX_EXCEPTION_CHARS]
        send(channel, answer)


def _make_handlers(job: ServeJob) -> Mapping[str, Handler]:
    """Return what answers each command; imports torch only for code that may need it."""
    code, target = job["code"], job["target"]
    with load_openmp_first() if target == "cpu" else nullcontext():
        if target == "cpu" and code["kind"] == "c":
            from kernelkb.measure.worker.runner.library_runner import LibraryRunner

            return LibraryRunner(code).handlers
        with import_quickly():
            from kernelkb.measure.worker.runner.tensor_runner import TensorRunner
    return TensorRunner(job).handlers
