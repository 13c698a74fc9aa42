"""Starts ``kb lab worker`` on a host, here or by ssh, as a process of Dask's SpecCluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from distributed.deploy.spec import ProcessInterface

from kernelkb.errors import EnvironmentGapError

_READY_S = 180
_CLOSE_S = 10
READY = "ready"
"""What ``kb lab worker -`` prints on its first line of output once its workers have joined."""


class HostProcess(ProcessInterface):  # type: ignore[misc]
    """The workers of one host: ``kb lab worker -``, a child process or the far end of ssh.

    Not ``distributed.SSHCluster`` (2026.8): it puts the workers' options, the same for all workers
    of a host, and its whole configuration into the command line; certificates cannot be given but
    as paths of files, so that keys would have to be copied first, and one worker for each GPU UUID
    cannot be said. Here the order, with the certificates, is one line of standard input, and the
    end of the input ends the workers, also when this process was killed.
    """

    def __init__(
        self,
        scheduler: str,
        name: str,
        order: dict[str, Any],
        command: Sequence[str],
        begun: list[HostProcess],
    ) -> None:
        super().__init__(scheduler=scheduler, name=name)
        self._name = name
        self._order = {**order, "address": scheduler}
        self._command = list(command)
        self._process: asyncio.subprocess.Process | None = None
        self._is_killed = False
        begun.append(self)  # Dask names it only once it has started
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 as long as the process

    async def start(self) -> None:
        """Start it and wait until its workers have joined.

        Raises:
            EnvironmentGapError: It ended, or did not join in time; with the last lines it wrote.
        """
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._complaints,
            start_new_session=True,  # Ctrl-C is for us; we then close our end of its input
        )
        if self._is_killed:  # while the system made the process
            self.kill()
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("both are pipes")
        with contextlib.suppress(OSError):  # it ended already, which its output will show
            self._process.stdin.write(json.dumps(self._order).encode() + b"\n")
            await self._process.stdin.drain()
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), _READY_S)
        except TimeoutError:
            line = b""
        if self._is_killed:
            raise asyncio.CancelledError
        if line.strip() != READY.encode():
            await self._end()
            raise EnvironmentGapError(
                f"no workers on {self._name}: {self._read_complaints()}",
                f"try `{shlex.join(self._command[:-2])} env` there",
            )
        await super().start()

    def kill(self) -> None:
        """End it at once, from any thread; a start that goes on then fails."""
        self._is_killed = True
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _read_complaints(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read().decode("utf-8", "replace").strip().splitlines()
        return " / ".join(lines[-3:]) or "it said nothing"

    async def close(self) -> None:
        """End the workers of the host."""
        await self._end()
        self._complaints.close()
        await super().close()

    async def _end(self) -> None:
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _CLOSE_S)
        except TimeoutError:
            self.kill()
            await self._process.wait()


def build_command(host: str | None = None, port: int | None = None) -> list[str]:
    """Return the command that starts ``kb lab worker -`` on a host; None is this one.

    ``KB_SSH_COMMAND`` names another ssh, with its options; ``KB_REMOTE_COMMAND`` the kb of the
    hosts, where their PATH has none.
    """
    if host is None:
        return [sys.executable, "-c", _START, "worker", "-"]
    ssh = shlex.split(os.environ.get("KB_SSH_COMMAND", "ssh"))
    remote = shlex.split(os.environ.get("KB_REMOTE_COMMAND", "kb"))
    ports = ["-p", str(port)] if port else []
    # -T: no terminal; BatchMode: no question for a password, which would wait for ever.
    options = ["-T", "-o", "BatchMode=yes", *ports, "--", host.strip("[]")]
    return [*ssh, *options, *remote, "worker", "-"]


_START = "from kernelkb.cli import start; raise SystemExit(start())"
