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

from kernelkb.measure.worker.judge.pauser import Held
from kernelkb.measure.worker.judge.procfs import (
    cpu_ticks,
    end_orphans,
    end_with_children,
    family,
    joined,
    memory_of,
    offspring,
    parted,
    status_of,
    waited_ns,
)
from kernelkb.measure.worker.judge.runner_environment import environment_of
from kernelkb.measure.worker.shared.channel import Message, ProtocolError, receive, send
from kernelkb.measure.worker.shared.failures import (
    Refused,
    RunnerLost,
    Unfit,
    detail_of,
    printable,
    status_of_error,
)

Job = dict[str, Any]

_ENTER_S = 120.0
"""To import torch takes seconds, and more where others do the same."""
_POLL_S = 0.05
_COUNT_S = 0.4
_LOOK_S = 0.25
_TAIL = 4000
_LONGEST_NS = 1e13


class Partner:
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
        self.layers: list[str] = []
        self.limits: Job = job["limits"]
        self.asked_s = 0.0
        self.closed = False
        self._seq = 0
        self._counted = self._looked = 0.0
        self._folder = folder / name
        self._folder.mkdir()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel = ours
        task = {**job, "mode": "serve", "channel": theirs.fileno()}
        file = self._folder / "job.json"
        file.write_text(json.dumps(task), encoding="utf-8")
        start = Path(__file__).parents[1] / "start.py"
        launcher = [part.replace("{folder}", str(self._folder)) for part in job["launcher"]]
        self._confined, self._forks = bool(launcher), bool(job.get("forks"))
        self._inspected = False
        self._log = (self._folder / "log").open("w+b")  # by name it could be anything by now
        self._process = subprocess.Popen(
            [*launcher, sys.executable, "-P", str(start), str(file)],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs.fileno(),),
            env=environment_of(job, self._folder if launcher else None),
            cwd=self._folder,
        )
        joined(self._process.pid)
        self._held = Held(self._process)
        theirs.close()

    def enter(self) -> None:
        """Wait until its walls stand, and stop it before it loads code.

        Raises:
            Unfit: It does not get that far, which no code of anybody's can have caused.
        """
        try:
            self.ask("ready", _ENTER_S)
        except (Refused, RunnerLost) as problem:
            raise Unfit(f"no runner starts here: {problem}; see what kb env says") from problem
        with suppress(OSError, ValueError):  # now, before there is anybody who could write others
            self.layers = json.loads((self._folder / "layers.json").read_text("utf-8"))
        self.asked_s = 0.0  # to start is no work of anybody's
        self.pause()

    def ask(self, what: str, timeout_s: float, *files: int, **fields: Any) -> Message:
        """Send a request and return its answer.

        Raises:
            Refused: The candidate reported an error.
            RunnerLost: There will be no answer.
        """
        self._listen()
        self._resume()
        self._seq = secrets.randbits(48)  # nobody can answer what was not asked yet
        started = time.monotonic()
        try:
            send(self._channel, {"do": what, "seq": self._seq, **fields}, *files)
        except OSError:
            self._end("it had ended before it was asked")
        try:
            return self._answer(timeout_s, started)
        finally:
            self.asked_s += time.monotonic() - started

    def _listen(self) -> None:
        """Make sure that nothing was said that nobody asked for."""
        self._channel.settimeout(0)
        with suppress(OSError, EOFError):
            with suppress(ProtocolError):
                receive(self._channel)
            self._kill("crashed", "it answered a question that nobody asked")

    def _answer(self, timeout_s: float, started: float) -> Message:
        self._channel.settimeout(_POLL_S)
        while True:
            try:
                answer = receive(self._channel)
                break
            except TimeoutError:
                self._watch(started, timeout_s)
            except (EOFError, ConnectionError):
                self._end(None)
            except ProtocolError as error:
                self._kill("crashed", f"it wrote to the judge's channel: {error}")
        if answer.get("seq") != self._seq:
            self._kill("crashed", "it answered a question that nobody asked")
        if time.monotonic() - self._looked > _LOOK_S:
            self._watch(started, math.inf)
        if "raised" in answer:
            self._raised(printable(answer["raised"]))
        if "error" in answer:
            raise Refused(printable(answer["error"]), self.name)
        return answer

    def number(self, answer: Message, name: str) -> float:
        """Return a time that it told, nanoseconds.

        Raises:
            RunnerLost: It is none.
        """
        value = answer.get(name)
        if not isinstance(value, int | float) or not 0 <= value < _LONGEST_NS:
            self._kill("crashed", f"it told no time of its calls ({name})")
        return float(value)

    def _raised(self, said: str) -> NoReturn:
        """Tell an exception after which nothing works any more from one that is only an answer."""
        status = status_of_error(said)
        if status:
            self._kill(status, said)
        raise Refused(said, self.name)

    def pause(self) -> None:
        """Stop it with all its threads, until it is asked something.

        It is not to see its inputs in the making, and not to work in another's time.

        Raises:
            RunnerLost: It has started somebody who would.
        """
        self._held.pause()
        may_fork = self._forks or (self._confined and "seccomp" not in self.layers)
        if may_fork and offspring(self._process.pid):
            self._kill("limit-exceeded", "a process that it started went on after its call")

    def halt(self) -> None:
        """Tell it to stop, and do not wait for it."""
        self._held.halt()

    def inspect(self) -> None:
        """Make sure that it has stood still since it was stopped.

        Raises:
            RunnerLost: It has not.
        """
        moved = self._held.moved()
        if moved:
            self._kill("crashed", f"it did not stay stopped while it was to wait: {moved}")
        self._inspected = True

    def _resume(self) -> None:
        if self._held.stopped:
            if not self._inspected:
                self.inspect()
            self._inspected = False
            self._held.go_on()

    def read(self, address: int, size: int) -> bytes:
        """Return what it has at an address; nothing where that cannot be read whole."""
        return memory_of(self._process.pid, address, size)

    def waited_ns(self) -> int:
        """Return how long its threads have stood in line for a core, nanoseconds."""
        return waited_ns(self._process.pid)

    def thread_count(self) -> int:
        """Return how many threads it has now."""
        return int(status_of(self._process.pid).get("Threads", "0"))

    def cpu_ticks(self) -> int:
        """Return the CPU time that it and its threads have taken, in the kernel's ticks."""
        return cpu_ticks(self._process.pid)

    def log(self) -> str:
        """Return the last of what it printed."""
        with suppress(OSError, ValueError):
            size = os.fstat(self._log.fileno()).st_size
            return os.pread(self._log.fileno(), _TAIL, max(0, size - _TAIL)).decode(
                "utf-8", "replace"
            )
        return ""

    def close(self) -> None:
        """End it."""
        self.closed = True
        self._channel.close()
        self._log.close()
        self._end_process()

    def _end_process(self) -> None:
        if self._process.poll() is None:
            end_with_children(self._process.pid)
            self._process.wait()
            parted(self._process.pid)
            end_orphans()

    def _watch(self, started: float, timeout_s: float) -> None:
        """Look whether it may go on."""
        self._looked = time.monotonic()
        if self._process.poll() is not None:
            self._end(None)
        if time.monotonic() - started > timeout_s:
            self._kill("timed-out", f"it did not finish within {timeout_s:g} s")
        status = status_of(self._process.pid)
        taken = sum(int(status.get(name, "0").split()[0]) for name in ("RssAnon", "RssShmem"))
        if taken * 1024 > self.limits["memory_bytes"]:
            most = self.limits["memory_bytes"] / 2**30
            self._kill("out-of-memory", f"it took more than {most:.1f} GiB of memory")
        if int(status.get("Threads", "0")) > self.limits["threads"]:
            self._kill("limit-exceeded", f"it started more than {self.limits['threads']} threads")
        if self._confined and time.monotonic() - self._counted > _COUNT_S:  # it reads all of /proc
            self._counted = time.monotonic()
            most = self.limits["processes"]
            if len(family()) > most:
                self._kill("limit-exceeded", f"it started more than {most} processes")

    def _kill(self, status: str, detail: str) -> NoReturn:
        self._end_process()
        raise RunnerLost(status, detail, self.name)

    def _end(self, detail: str | None) -> NoReturn:
        """Say how it ended by itself."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._kill("crashed", "it closed the judge's channel")
        if code == -signal.SIGXFSZ:
            most = self.limits["file_bytes"] / 2**20
            raise RunnerLost("limit-exceeded", f"it wrote more than {most:.0f} MiB", self.name)
        raise RunnerLost("crashed", detail_of(code, self.log(), detail), self.name)
