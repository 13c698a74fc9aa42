"""A runner as the judge sees it: start it, ask it, watch it, end it."""

from __future__ import annotations

import json
import math
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from kernelkb.measure.worker.judge.pauser import ProcessPauser
from kernelkb.measure.worker.judge.procfs import (
    cpu_ticks,
    kill_orphans,
    kill_with_descendants,
    list_all_descendants,
    list_descendants,
    read_memory,
    read_status,
    register_runner,
    runqueue_wait_ns,
    unregister_runner,
)
from kernelkb.measure.worker.judge.runner_environment import build_runner_environment
from kernelkb.measure.worker.shared.channel import Message, ProtocolError, receive, send
from kernelkb.measure.worker.shared.failures import (
    RunnerDied,
    RunnerError,
    UnsupportedHost,
    classify_error,
    describe_exit,
    make_printable,
)

Job = dict[str, Any]

_READY_TIMEOUT_S = 120.0
"""To import torch takes seconds, and more where others do the same."""
_POLL_S = 0.05
_COUNT_INTERVAL_S = 0.4
_WATCH_INTERVAL_S = 0.25
_LOG_TAIL_BYTES = 4000
_MAX_TIME_NS = 1e13


class RunnerProcess:
    """One runner process.

    Attributes:
        name: Its own, for files and for blame.
        layers: What confines it, by the launcher's own account; known once it has entered.
        limits: What it may take.
        asked_s: How long it has been asked things, all together, in seconds.
        closed: Whether it was ended.
    """

    def __init__(self, name: str, job: Job, folder: Path) -> None:
        """Start a runner.

        Args:
            name: For its files.
            job: ``{"target", "what", "launcher", "limits"}``; optional are ``caches``, a folder,
                ``forks``, that it may start processes, and ``turn``, its number among the runners.
            folder: The judge's folder; the runner gets one of its own inside.
        """
        self.name = name
        self.sandbox_layers: list[str] = []
        self.limits: Job = job["limits"]
        self.total_request_s = 0.0
        self.is_closed = False
        self._seq = 0
        self._last_count_at = self._last_watch_at = 0.0
        self._folder = folder / name
        self._folder.mkdir()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel = ours
        task = {**job, "mode": "serve", "channel": theirs.fileno()}
        file = self._folder / "job.json"
        file.write_text(json.dumps(task), encoding="utf-8")
        start = Path(__file__).parents[1] / "start.py"
        launcher = [part.replace("{folder}", str(self._folder)) for part in job["launcher"]]
        self._is_confined, self._may_fork = bool(launcher), bool(job.get("forks"))
        self._stop_verified = False
        self._log_file = (self._folder / "log").open("w+b")  # by name it could be anything by now
        self._process = subprocess.Popen(
            [*launcher, sys.executable, "-P", str(start), str(file)],
            stdin=subprocess.DEVNULL,
            stdout=self._log_file,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs.fileno(),),
            env=build_runner_environment(job, self._folder if launcher else None),
            cwd=self._folder,
        )
        register_runner(self._process.pid)
        self._pauser = ProcessPauser(self._process)
        theirs.close()

    def wait_ready(self) -> None:
        """Wait until its walls stand, and stop it before it loads code.

        Raises:
            Unfit: It does not get that far, which no code of anybody's can have caused.
        """
        try:
            self.ask("ready", _READY_TIMEOUT_S)
        except (RunnerError, RunnerDied) as problem:
            said = f"no runner starts here: {problem}; see what kb env says"
            raise UnsupportedHost(said) from problem
        with suppress(OSError, ValueError):  # now, before there is anybody who could write others
            self.sandbox_layers = json.loads((self._folder / "layers.json").read_text("utf-8"))
        self.total_request_s = 0.0  # to start is no work of anybody's
        self.pause()

    def ask(self, command: str, timeout_s: float, *files: int, **fields: Any) -> Message:
        """Send a request and return its answer.

        Raises:
            Refused: The candidate reported an error.
            RunnerLost: There will be no answer.
        """
        self._reject_unsolicited()
        self._resume()
        self._seq = secrets.randbits(48)  # nobody can answer what was not asked yet
        started = time.monotonic()
        try:
            send(self._channel, {"do": command, "seq": self._seq, **fields}, *files)
        except OSError:
            self._raise_exit("it had ended before it was asked")
        try:
            return self._receive_answer(timeout_s, started)
        finally:
            self.total_request_s += time.monotonic() - started

    def _reject_unsolicited(self) -> None:
        """Make sure that nothing was said that nobody asked for."""
        self._channel.settimeout(0)
        with suppress(OSError, EOFError):
            with suppress(ProtocolError):
                receive(self._channel)
            self._kill_and_raise("crashed", "it answered a question that nobody asked")

    def _receive_answer(self, timeout_s: float, started: float) -> Message:
        self._channel.settimeout(_POLL_S)
        while True:
            try:
                answer = receive(self._channel)
                break
            except TimeoutError:
                self._enforce_limits(started, timeout_s)
            except (EOFError, ConnectionError):
                self._raise_exit(None)
            except ProtocolError as error:
                self._kill_and_raise("crashed", f"it wrote to the judge's channel: {error}")
        if answer.get("seq") != self._seq:
            self._kill_and_raise("crashed", "it answered a question that nobody asked")
        if time.monotonic() - self._last_watch_at > _WATCH_INTERVAL_S:
            self._enforce_limits(started, math.inf)
        if "raised" in answer:
            self._raise_reported(make_printable(answer["raised"]))
        if "error" in answer:
            raise RunnerError(make_printable(answer["error"]), self.name)
        return answer

    def parse_time_ns(self, answer: Message, name: str) -> float:
        """Return a time that it told, nanoseconds.

        Raises:
            RunnerLost: It is none.
        """
        value = answer.get(name)
        if not isinstance(value, int | float) or not 0 <= value < _MAX_TIME_NS:
            self._kill_and_raise("crashed", f"it told no time of its calls ({name})")
        return float(value)

    def _raise_reported(self, message: str) -> NoReturn:
        """Tell an exception after which nothing works any more from one that is only an answer."""
        status = classify_error(message)
        if status:
            self._kill_and_raise(status, message)
        raise RunnerError(message, self.name)

    def pause(self) -> None:
        """Stop it with all its threads, until it is asked something.

        It is not to see its inputs in the making, and not to work in another's time.

        Raises:
            RunnerLost: It has started somebody who would.
        """
        self._pauser.pause()
        may_fork = self._may_fork or (self._is_confined and "seccomp" not in self.sandbox_layers)
        if may_fork and list_descendants(self._process.pid):
            detail = "a process that it started went on after its call"
            self._kill_and_raise("limit-exceeded", detail)

    def send_stop(self) -> None:
        """Tell it to stop, and do not wait for it."""
        self._pauser.send_stop()

    def verify_stopped(self) -> None:
        """Make sure that it has stood still since it was stopped.

        Raises:
            RunnerLost: It has not.
        """
        moved = self._pauser.activity_while_stopped()
        if moved:
            detail = f"it did not stay stopped while it was to wait: {moved}"
            self._kill_and_raise("crashed", detail)
        self._stop_verified = True

    def _resume(self) -> None:
        if self._pauser.is_stopped:
            if not self._stop_verified:
                self.verify_stopped()
            self._stop_verified = False
            self._pauser.resume()

    def read_memory(self, address: int, size: int) -> bytes:
        """Return what it has at an address; nothing where that cannot be read whole."""
        return read_memory(self._process.pid, address, size)

    def runqueue_wait_ns(self) -> int:
        """Return how long its threads have stood in line for a core, nanoseconds."""
        return runqueue_wait_ns(self._process.pid)

    def thread_count(self) -> int:
        """Return how many threads it has now."""
        return int(read_status(self._process.pid).get("Threads", "0"))

    def cpu_ticks(self) -> int:
        """Return the CPU time that it and its threads have taken, in the kernel's ticks."""
        return cpu_ticks(self._process.pid)

    def read_log_tail(self) -> str:
        """Return the last of what it printed."""
        with suppress(OSError, ValueError):
            size = os.fstat(self._log_file.fileno()).st_size
            return os.pread(
                self._log_file.fileno(), _LOG_TAIL_BYTES, max(0, size - _LOG_TAIL_BYTES)
            ).decode("utf-8", "replace")
        return ""

    def close(self) -> None:
        """End it."""
        self.is_closed = True
        self._channel.close()
        self._log_file.close()
        self._end_process()

    def _end_process(self) -> None:
        if self._process.poll() is None:
            kill_with_descendants(self._process.pid)
            self._process.wait()
            unregister_runner(self._process.pid)
            kill_orphans()

    def _enforce_limits(self, started: float, timeout_s: float) -> None:
        """Look whether it may go on."""
        self._last_watch_at = time.monotonic()
        if self._process.poll() is not None:
            self._raise_exit(None)
        if time.monotonic() - started > timeout_s:
            self._kill_and_raise("timed-out", f"it did not finish within {timeout_s:g} s")
        status = read_status(self._process.pid)
        taken = sum(int(status.get(name, "0").split()[0]) for name in ("RssAnon", "RssShmem"))
        if taken * 1024 > self.limits["memory_bytes"]:
            most = self.limits["memory_bytes"] / 2**30
            self._kill_and_raise("out-of-memory", f"it took more than {most:.1f} GiB of memory")
        if int(status.get("Threads", "0")) > self.limits["threads"]:
            detail = f"it started more than {self.limits['threads']} threads"
            self._kill_and_raise("limit-exceeded", detail)
        if self._is_confined and time.monotonic() - self._last_count_at > _COUNT_INTERVAL_S:
            # The count reads all of /proc.
            self._last_count_at = time.monotonic()
            most = self.limits["processes"]
            if len(list_all_descendants()) > most:
                self._kill_and_raise("limit-exceeded", f"it started more than {most} processes")

    def _kill_and_raise(self, status: str, detail: str) -> NoReturn:
        self._end_process()
        raise RunnerDied(status, detail, self.name)

    def _raise_exit(self, detail: str | None) -> NoReturn:
        """Say how it ended by itself."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._kill_and_raise("crashed", "it closed the judge's channel")
        if code == -signal.SIGXFSZ:
            most = self.limits["file_bytes"] / 2**20
            raise RunnerDied("limit-exceeded", f"it wrote more than {most:.0f} MiB", self.name)
        raise RunnerDied("crashed", describe_exit(code, self.read_log_tail(), detail), self.name)
