"""The runner process: runs a candidate or rival on commands of the judge.

The judge owns inputs, outputs, the order of calls and the clock that decides. Times that this
process reports are compared with that clock, never trusted alone.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from kernelkb.measure.worker import import_quickly
from kernelkb.measure.worker.shared.channel import receive_with_files, send
from kernelkb.measure.worker.shared.failures import KernelError
from kernelkb.measure.worker.shared.messages.runner_commands import Handler, ServeJob

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


@contextmanager
def load_openmp_first() -> Iterator[None]:
    """Load the library; the block, which imports what the runner needs, may use all cores.

    The library binds this thread to the first core of ``OMP_PLACES``, which is the same for all
    runners, so their imports would wait for each other. Code that uses OpenMP without torch gets
    the same library as the rivals. Where torch comes with another one, importing torch binds.
    """
    own_cores = os.sched_getaffinity(0)
    _load_openmp()
    bound = os.sched_getaffinity(0)
    os.sched_setaffinity(0, own_cores)
    try:
        yield
    finally:
        if bound != own_cores:
            os.sched_setaffinity(0, bound)


def _load_openmp() -> None:
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        with suppress(OSError):  # a build of torch with another OpenMP library
            ctypes.CDLL(str(Path(torch.origin).parent / "lib" / "libgomp.so.1"), ctypes.RTLD_GLOBAL)
