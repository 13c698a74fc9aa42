"""Runner processes by fork: a process that has imported torch forks one child for each mutant.

Importing torch takes 1.5 s, many times what a check of a small kernel takes. The children run the
product's own runner (``worker/runner``) and the judge talks to them as to any other.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from benchmarks.mutants.equivalence import compare_directly

from kernelkb.measure.worker.judge import procfs
from kernelkb.measure.worker.runner.serve import serve
from kernelkb.measure.worker.shared.messages.runner_commands import ServeJob

_REQUEST_BYTES = 2**20
_ADOPTION_TIMEOUT_S = 5.0
_POLL_S = 0.002


class ForkServer:
    """Starts children that have torch and no CUDA context yet. Make one before CUDA is used."""

    def __init__(self) -> None:
        procfs.become_subreaper()  # orphans of the server become our children
        self._channel, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            self._channel.close()
            _answer_requests(other_end)
        other_end.close()
        procfs.register_runner(pid)  # else it would be killed as an orphan

    def start(self, request: dict[str, Any], *files: int) -> ForkedProcess:
        """Start a child for a request; ``files`` are passed on: its log, then its channel."""
        self._channel.settimeout(60.0)
        socket.send_fds(self._channel, [json.dumps(request).encode()], list(files))
        process = ForkedProcess(int(self._channel.recv(64)))
        process.wait_until_ours()
        return process

    def start_runner(
        self,
        sandbox: Sequence[str],  # noqa: ARG002 as of the function that it stands in for
        job: ServeJob,
        folder: Path,
        log_file: IO[bytes],
        environment: Mapping[str, str],  # noqa: ARG002
    ) -> subprocess.Popen[bytes]:
        """Fork a runner instead of starting an interpreter; see ``StartRunner``."""
        request = {"job": job, "folder": str(folder)}
        process: Any = self.start(request, log_file.fileno(), job["channel"])
        return process  # type: ignore[no-any-return] # it has what RunnerProcess asks for


class ForkedProcess:
    """A child as ``subprocess.Popen`` shows it, as far as the judge asks."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait_until_ours(self) -> None:
        """Wait until the process that forked it has ended, and we are its parent."""
        end = time.monotonic() + _ADOPTION_TIMEOUT_S
        while time.monotonic() < end:
            try:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                return
            except ChildProcessError:
                time.sleep(_POLL_S / 10)

    def poll(self) -> int | None:
        """Return its exit status, negative for a signal; None while it runs."""
        if self.returncode is None:
            with suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        end = time.monotonic() + (60.0 if timeout is None else timeout)
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("forked runner", timeout or 0)
            time.sleep(_POLL_S)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal to it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it and wait for its end."""
        self.send_signal(signal.SIGKILL)
        self.wait()


def _answer_requests(channel: socket.socket) -> None:
    """Fork a child for each request and answer its pid; never return."""
    while True:
        message, files, _, _ = socket.recv_fds(channel, _REQUEST_BYTES, 4)
        if not message:
            os._exit(0)
        middle = os.fork()
        if middle == 0:
            child = os.fork()
            if child:
                channel.send(str(child).encode())
                os._exit(0)
            channel.close()
            _run_child(json.loads(message), files)
        os.waitpid(middle, 0)
        for file in files:
            os.close(file)


def _run_child(request: dict[str, Any], files: list[int]) -> None:
    """Serve the judge, or compare a mutant with its original; never return."""
    code = 1
    try:
        os.dup2(files[0], 1)
        os.dup2(files[0], 2)
        os.chdir(request["folder"])
        if "job" in request:
            job: ServeJob = request["job"]
            job["channel"] = files[1]
            serve(job, Path(request["folder"]))
        else:
            answer = compare_directly(request["compare"])
            Path(request["folder"], "answer.json").write_text(json.dumps(answer), encoding="utf-8")
        code = 0
    finally:
        os._exit(code)
