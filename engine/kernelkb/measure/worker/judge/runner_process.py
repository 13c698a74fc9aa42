"""A runner process: its environment, its limits, and the commands that it answers."""

from __future__ import annotations

import json
import math
import os
import secrets
import signal
import site
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias

from kernelkb.measure.worker.judge import procfs
from kernelkb.measure.worker.judge.core_waits import WaitMeter
from kernelkb.measure.worker.judge.procfs import ProcessPauser
from kernelkb.measure.worker.shared.channel import (
    ProtocolError,
    receive,
    receive_timed,
    request_times,
    send,
)
from kernelkb.measure.worker.shared.failures import (
    RunnerDied,
    RunnerError,
    UnsupportedHost,
    classify_error,
    describe_exit,
    make_printable,
    read_log_tail,
)
from kernelkb.measure.worker.shared.messages.runner_commands import Answer, Command, ServeJob
from kernelkb.measure.worker.shared.messages.specs import (
    RunnerLimits,
    RunnerSpec,
    RunnerStatus,
    Target,
)

if TYPE_CHECKING:  # importing torch takes seconds, and most judges of CPU code do without
    from kernelkb.measure.worker.shared.memory import OpenedMemory

StartRunner: TypeAlias = Callable[
    [Sequence[str], ServeJob, Path, IO[bytes], Mapping[str, str]], "subprocess.Popen[bytes]"
]
"""Starts the process of a runner, with the arguments of ``start_interpreter``."""
CANDIDATE = "candidate"
"""Name of the one that is judged."""
_WORKER_SCRIPT = Path(__file__).parents[1] / "start.py"

_CACHE_VARIABLES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
# Without fixed thresholds malloc adapts them to what was freed before: of two equal processes one
# reuses its heap and the other takes a page fault for every 4 KiB of every output.
_MALLOC_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**26),
}
_COUNT_INTERVAL_S = 0.4
"""Between counts of a runner's processes, each of which reads all of /proc."""
_READY_TIMEOUT_S = 120.0  # importing torch takes seconds, more where several processes do so
_POLL_S = 0.05
_WATCH_INTERVAL_S = 0.25  # between limit checks of a runner that answers at once
_MAX_TIME_NS = 1e13  # the longest time that a runner may report: almost 3 hours
_SEQUENCE_BITS = 48
_KILLS = (signal.SIGKILL, signal.SIGTERM, signal.SIGBUS)  # SIGBUS: memory that others cut off


def build_environment(
    spec: RunnerSpec, target: Target, private_folder: Path | None
) -> dict[str, str]:
    """Return all environment variables of a runner.

    Args:
        spec: The runner.
        target: ``cpu`` or ``cuda``.
        private_folder: The only folder that a sandboxed runner may write to, besides its cache
            folder; None without a sandbox.
    """
    # The judge's idle OpenMP threads must not spin; a runner's may.
    variables = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    # A pool of compiler processes takes longer to start than a reference takes to compile.
    variables["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    variables |= _MALLOC_VARIABLES
    if target == "cpu":
        # Unbound threads that were stopped may all resume on one core and spin there in turn.
        # The order is the same for all runners, of which one runs at a time, since cores are not
        # equal: devices interrupt the first, so it comes last.
        cores = sorted(os.sched_getaffinity(0))
        places = (f"{{{core}}}" for core in cores[1:] + cores[:1])
        variables["OMP_PLACES"] = ",".join(places)
        variables["OMP_PROC_BIND"] = "true"
    if private_folder is None:
        return variables
    folder = str(private_folder)
    variables |= dict.fromkeys(("HOME", "TMPDIR", "CUDA_CACHE_PATH"), folder)
    variables |= dict.fromkeys(_CACHE_VARIABLES, spec["cache_folder"] or folder)
    # torch may be installed below the user's home folder.
    return {**variables, "PYTHONUSERBASE": site.getuserbase()}


def make_job(
    spec: RunnerSpec, target: Target, channel: socket.socket, *, is_confined: bool
) -> ServeJob:
    """Return the job of a runner that answers on a channel.

    Args:
        spec: The runner.
        target: ``cpu`` or ``cuda``.
        channel: Its end of the channel, which it inherits.
        is_confined: Whether it is sandboxed; if not, it adopts the orphans of its code itself.
    """
    return {
        "mode": "serve",
        "target": target,
        "code": spec["code"],
        "channel": channel.fileno(),
        "adopts_orphans": not is_confined,
    }


def start_interpreter(
    sandbox: Sequence[str],
    job: ServeJob,
    folder: Path,
    log_file: IO[bytes],
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Start a runner's interpreter.

    Args:
        sandbox: The command that confines it; empty for none.
        job: Written to the folder.
        folder: Its working directory.
        log_file: Receives what it prints.
        environment: All its variables.
    """
    job_file = folder / "job.json"
    job_file.write_text(json.dumps(job), encoding="utf-8")
    return subprocess.Popen(
        [*sandbox, sys.executable, "-P", str(_WORKER_SCRIPT), str(job_file)],
        stdin=subprocess.DEVNULL,
        stdout=log_file,
        stderr=subprocess.STDOUT,
        pass_fds=(job["channel"],),
        env=environment,
        cwd=folder,
    )


class ExceededLimit(NamedTuple):
    """A limit that a runner exceeds."""

    status: RunnerStatus
    detail: str
    """What it did, as a sentence."""


class LimitWatch:
    """Watches one process."""

    def __init__(self, limits: RunnerLimits, *, counts_processes: bool) -> None:
        """Watch nothing yet.

        Args:
            limits: What it may use.
            counts_processes: Whether the number of processes that runners started counts.
        """
        self._limits, self._counts_processes = limits, counts_processes
        self._last_count_at = 0.0

    def find_exceeded(self, pid: int) -> ExceededLimit | None:
        """Return a limit that the process exceeds now."""
        status = procfs.read_status(pid)
        used_kib = sum(int(status.get(key, "0").split()[0]) for key in ("RssAnon", "RssShmem"))
        if used_kib * 1024 > self._limits["memory_bytes"]:
            gib = self._limits["memory_bytes"] / 2**30
            return ExceededLimit("out-of-memory", f"it took more than {gib:.1f} GiB of memory")
        exceeded = _compare(int(status.get("Threads", "0")), "threads", self._limits["threads"])
        if exceeded or not self._counts_processes:
            return exceeded
        if time.monotonic() - self._last_count_at < _COUNT_INTERVAL_S:
            return None
        self._last_count_at = time.monotonic()
        count = len(procfs.list_all_descendants())
        return _compare(count, "processes", self._limits["processes"])


def _compare(count: int, noun: str, limit: int) -> ExceededLimit | None:
    if count <= limit:
        return None
    return ExceededLimit("limit-exceeded", f"it started more than {limit} {noun}")


class RunnerProcess:
    """One runner process.

    Attributes:
        name: Names its folder, and the runner in failures.
        pid: Of the process.
        sandbox_layers: Those that Linux applied, known after ``wait_ready``.
        total_request_s: Seconds spent on its answers since ``wait_ready``.
        answer_delay_ns: How long its last answer waited for the judge to get a core.
        opened_memory: What the judge has opened of its GPU memory.
        is_closed: Whether it was killed by ``close``.
    """

    def __init__(
        self,
        name: str,
        spec: RunnerSpec,
        target: Target,
        folder: Path,
        start: StartRunner = start_interpreter,
    ) -> None:
        """Start the process.

        Args:
            name: Unique among the runners.
            spec: Its code, sandbox and limits.
            target: ``cpu`` or ``cuda``.
            folder: The judge's scratch folder; the runner gets a folder of its own inside.
            start: Starts the process.
        """
        self.name, self._limits = name, spec["limits"]
        self.sandbox_layers: list[str] = []
        self.total_request_s = 0.0
        self.answer_delay_ns = 0
        self.opened_memory: OpenedMemory | None = None
        self.is_closed = self._stop_verified = self._is_readable = False
        self._sequence, self._last_watch_at = 0, 0.0
        self._killed_for: RunnerDied | None = None
        self._folder = folder / name
        self._folder.mkdir(exist_ok=True)  # a rival may be started again
        sandbox = [part.replace("{folder}", str(self._folder)) for part in spec["sandbox_command"]]
        self._is_confined, self._may_fork = bool(sandbox), spec["may_fork"]
        self._limit_watch = LimitWatch(spec["limits"], counts_processes=self._is_confined)
        self._log_file = (self._folder / "log").open("w+b")  # the runner may replace it by name
        env = build_environment(spec, target, self._folder if sandbox else None)
        self._channel, runner_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request_times(self._channel)
        with runner_end:
            job = make_job(spec, target, runner_end, is_confined=bool(sandbox))
            self._process = start(sandbox, job, self._folder, self._log_file, env)
        self.pid = self._process.pid
        procfs.register_runner(self.pid)
        self._pauser = ProcessPauser(self._process, stops_each_thread=target == "cpu")

    def wait_ready(self) -> None:
        """Wait until its sandbox is up, then stop it before it loads code.

        Raises:
            UnsupportedHost: It does not get there; none of the candidate's code has run.
        """
        try:
            self.ask({"command": "ready"}, _READY_TIMEOUT_S)
        except (RunnerError, RunnerDied) as error:
            raise UnsupportedHost(f"no runner starts: {error}") from error
        with suppress(OSError, ValueError):  # read before any code runs that could overwrite it
            self.sandbox_layers = json.loads((self._folder / "layers.json").read_text("utf-8"))
        self.total_request_s = 0.0  # the start is not the candidate's time
        self._is_readable = procfs.is_memory_readable(self.pid)
        self.pause()

    def ask(
        self, command: Command, timeout_s: float, *files: int, is_timed: bool = False
    ) -> Answer:
        """Send a command and return its answer, whose values are not checked yet.

        Args:
            command: What to do.
            timeout_s: For the answer.
            files: Descriptors to send along.
            is_timed: Return at once when it answers, since a clock runs: looking for exceeded
                limits reads all of /proc, which takes some 10 ms. ``pause`` does that later.

        Raises:
            RunnerError: The code reported an error or raised an exception.
            RunnerDied: There is no answer, or it breaks the protocol.
        """
        self._reject_unsolicited()
        self._resume()
        self._sequence = secrets.randbits(_SEQUENCE_BITS)  # no runner can answer in advance
        start = time.monotonic()
        try:
            send(self._channel, {**command, "sequence": self._sequence}, *files)
        except OSError:
            self._raise_exit("it had ended before it was asked")
        try:
            answer = self._receive_answer(timeout_s, start)
        finally:
            self.total_request_s += time.monotonic() - start
        if not is_timed:
            self.watch_limits()
        if "exception" in answer:
            self._raise_exception(make_printable(answer["exception"]))
        if "kernel_error" in answer:
            raise RunnerError(make_printable(answer["kernel_error"]), self.name)
        return answer

    def watch_limits(self) -> None:
        """Kill it if it exceeds a limit, unless that was looked for a moment ago."""
        if time.monotonic() - self._last_watch_at > _WATCH_INTERVAL_S:
            self._enforce_limits(time.monotonic(), math.inf)

    def _reject_unsolicited(self) -> None:
        """Kill a runner that has sent something since its last answer."""
        self._channel.settimeout(0)
        with suppress(OSError, EOFError):
            with suppress(ProtocolError):
                receive(self._channel)
            self._kill_and_raise("crashed", "it sent an answer to no command")

    def _receive_answer(self, timeout_s: float, start: float) -> Answer:
        self._channel.settimeout(_POLL_S)
        while True:
            try:
                answer, self.answer_delay_ns = receive_timed(self._channel)
                break
            except TimeoutError:
                self._enforce_limits(start, timeout_s)
            except (EOFError, ConnectionError):
                self._raise_exit(None)
            except ProtocolError as error:
                self._kill_and_raise("crashed", f"it wrote to the judge's channel: {error}")
        if answer.get("sequence") != self._sequence:
            self._kill_and_raise("crashed", "it sent an answer to no command")
        return answer

    def parse_time_ns(self, answer: Answer, key: str) -> float:
        """Return a time that the runner reported, nanoseconds.

        Raises:
            RunnerDied: It is no number, negative or too large.
        """
        value = answer.get(key)
        if not isinstance(value, int | float) or not 0 <= value < _MAX_TIME_NS:
            self._kill_and_raise("crashed", f"it reported no time of its calls ({key})")
        return float(value)

    def close_opened_memory(self) -> None:
        """Close what the judge has opened of its GPU memory, before that is freed."""
        if self.opened_memory is not None:
            self.opened_memory.close()

    def reject_answer(self, reason: str) -> NoReturn:
        """Kill it for an answer that cannot be; raises RunnerDied."""
        self._kill_and_raise("crashed", reason)

    def _raise_exception(self, message: str) -> NoReturn:
        """Raise RunnerDied for an exception that leaves the process unusable, else RunnerError."""
        status = classify_error(message)
        if status:
            self._kill_and_raise(status, message)
        raise RunnerError(message, self.name)

    def pause(self) -> None:
        """Stop it with all its threads, until the next command.

        It must not see its inputs while they are made, nor run while another runner is timed.

        Raises:
            RunnerDied: It has started a process, which would go on, or exceeds a limit.
        """
        self._pauser.send_stop()
        has_child = self._forks and procfs.has_running_child(self.pid)  # one may end soon
        self._pauser.pause()
        procfs.reap_orphans()  # those that ended with the call
        self._reject_left_processes(scan=True, has_child=has_child)
        self.watch_limits()

    def _reject_left_processes(self, *, scan: bool, has_child: bool = False) -> None:
        """Kill it if an orphan of it is at work or, with ``scan``, any process below it."""
        if not self._forks:
            return
        is_found = has_child or (scan and procfs.list_descendants(self.pid))
        if is_found or procfs.list_orphans():
            self._kill_and_raise(
                "limit-exceeded", "a process that it started went on after its call"
            )

    def measure_waits(self) -> WaitMeter:
        """Return a meter of what it waits for cores, from now on; it is stopped, or waits."""
        return WaitMeter(self.pid, may_fork=self._forks)

    @property
    def _forks(self) -> bool:
        """Whether it can start processes."""
        return self._may_fork or (self._is_confined and "seccomp" not in self.sandbox_layers)

    def send_stop(self) -> None:
        """Send SIGSTOP without waiting."""
        self._pauser.send_stop()

    @property
    def late_ns(self) -> int:
        """CPU time that it took between the last SIGSTOP and the moment when it had stopped."""
        return self._pauser.late_ns

    def verify_stopped(self) -> None:
        """Check that it has not run since it was stopped.

        Raises:
            RunnerDied: It has.
        """
        activity = self._pauser.activity_while_stopped()
        if activity:
            self._kill_and_raise("crashed", f"it did not stay stopped: {activity}")
        self._reject_left_processes(scan=False)
        self._stop_verified = True

    def _resume(self) -> None:
        if self._pauser.is_stopped:
            if not self._stop_verified:
                self.verify_stopped()
            self._stop_verified = False
            self._pauser.resume()

    def read_memory(self, pieces: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return pieces of its memory, each given by address and size.

        A piece that cannot be read completely is empty.

        Raises:
            RunnerDied: It hides its memory, which could be read before its code was loaded.
            UnsupportedHost: This machine does not let a parent read its child's memory.
        """
        try:
            return procfs.read_memory(self.pid, pieces)
        except UnsupportedHost:
            if not self._is_readable:
                raise
            self._kill_and_raise("crashed", "it hid its memory, from which the judge reads outputs")

    def thread_count(self) -> int:
        """Return the number of its threads."""
        return int(procfs.read_status(self.pid).get("Threads", "0"))

    def close(self) -> None:
        """Kill it with everything that it started."""
        self.is_closed = True
        self.close_opened_memory()
        self._channel.close()
        self._log_file.close()
        self.kill()

    def kill(self) -> None:
        """Kill it; a thread that waits for its answer gets ``RunnerDied``."""
        if self._process.poll() is None:
            procfs.kill_with_descendants(self.pid)
            self._process.wait()
        procfs.unregister_runner(self.pid)
        procfs.kill_orphans()

    def _enforce_limits(self, start: float, timeout_s: float) -> None:
        """Kill it if it exceeds its time or another limit; raise if it has ended."""
        self._last_watch_at = time.monotonic()
        procfs.reap_orphans()  # a chain of forks would use up the machine's pids
        if self._process.poll() is not None:
            self._raise_exit(None)
        if time.monotonic() - start > timeout_s:
            self._kill_and_raise("timed-out", f"it did not finish within {timeout_s:g} s")
        exceeded = self._limit_watch.find_exceeded(self.pid)
        if exceeded:
            self._kill_and_raise(exceeded.status, exceeded.detail)

    def _kill_and_raise(self, status: RunnerStatus, detail: str) -> NoReturn:
        self.kill()
        self._killed_for = RunnerDied(status, detail, self.name)
        raise self._killed_for

    def _raise_exit(self, fallback: str | None) -> NoReturn:
        """Raise RunnerDied for a process that ended by itself, or again why it was killed."""
        if self._killed_for is not None:
            raise self._killed_for
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._kill_and_raise("crashed", "it closed the judge's channel")
        self.kill()  # what it left behind
        if code == -signal.SIGXFSZ:
            limit_mib = self._limits["file_bytes"] / 2**20
            raise RunnerDied("limit-exceeded", f"it wrote more than {limit_mib:.0f} MiB", self.name)
        detail, exit_status = describe_exit(code, read_log_tail(self._log_file.fileno()), fallback)
        raise RunnerDied("crashed", detail, self.name, exit_status, was_killed=-code in _KILLS)
