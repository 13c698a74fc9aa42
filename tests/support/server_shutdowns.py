"""Ends a server during work, and reports leftover processes and files and the time to exit.

As a program, ``server_shutdowns.py ACTIVITY END_METHOD`` prints one result as JSON.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from broken_kernels import HEAD, make_broken_kernel
from processes import reset_signals

END_TIMEOUT_S = 120
START_TIMEOUT_S = 120

CLIENT_PROGRAM = """
import os, sys
import anyio
from mcp import Client, StdioServerParameters

async def run():
    words = ["-c", sys.argv[1]]
    serve = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    async with Client(serve) as client:
        await client.call_tool(sys.argv[2], {"kernel": "broken", "target": sys.argv[3]})
        await anyio.sleep(600)

anyio.run(run)
"""

HOLDER_PROGRAM = """
import time
from kernelkb.measure.process.device_queue import exclusive_device
with exclusive_device("cpu", str):
    print("holds", flush=True)
    time.sleep(600)
"""


@dataclass(frozen=True)
class ServerActivity:
    """Work that a server does when it is ended."""

    make_kernel: Callable[[Path], object]
    """Writes the kernel ``broken`` into a project."""
    tool: str
    has_started: Callable[[Path], bool]
    """Takes the folder of this shutdown; returns whether the work has begun."""
    is_device_locked: bool = False
    """Whether another process holds the device lock meanwhile."""
    target: str = "cpu"
    server_program: str = "from kernelkb_mcp.start import main; main()"
    cancel: Callable[["StdioServer"], object] = lambda server: server.send_notification(
        "notifications/cancelled", requestId=2
    )
    """Cancels the call as a client would."""


@dataclass(frozen=True)
class ShutdownResult:
    """The time that a shutdown took, and the processes and files left after it."""

    seconds: float | None
    """Seconds from ending the server to the end of the last process; None if one remained."""
    code: int | None
    """The server's exit code; None when its parent, the client, was killed."""
    left: list[str]
    """Command lines of the remaining processes."""
    files: list[str]
    """Remaining folders of jobs and builds, and queue tickets that a process still locks."""


def shut_down_server(activity, end_method):
    """End a server during an activity; return a ShutdownResult."""
    with tempfile.TemporaryDirectory(prefix="kb-ending-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for each in ("project/sessions", "scratch"):
            (folder / each).mkdir(parents=True)
        activity.make_kernel(folder / "project")
        with _hold_device(folder, activity.is_device_locked) as holder:
            return _start_and_end(folder, activity, end_method, holder)


def is_compiling(folder):
    source = str(folder / "project" / "kernels" / "broken" / "naive.cpp")
    return any("cc1plus" in line and source in line for line in _list_command_lines(folder))


def is_candidate_running(folder):
    return any((folder / "scratch").glob("kernelkb-*/candidate/begun"))


def is_waiting_for_device(folder):
    return len(_list_tickets(folder)) == 2


def make_stalled_kernel(project):
    """Make a kernel whose compiler waits for a pipe that has no writer."""
    folder = make_broken_kernel(project, "right")
    os.mkfifo(folder / "wait.txt")
    source = folder / "naive.cpp"
    source.write_text(f'#include "wait.txt"\n{source.read_text()}')


def make_endless_kernel(project):
    """Make a kernel that creates the file ``begun`` and never returns."""
    body = 'std::fclose(std::fopen("begun", "w")); for (volatile long n = 0;; n = n + 1) {}'
    (make_broken_kernel(project, "right") / "naive.cpp").write_text(f"{HEAD}  {body}\n}}\n")


SERVE_AS_JOBS = """
import kernelkb_mcp.server as server
from kernelkb_mcp.server_config import ServerConfig
build = server.build_server
server.build_server = lambda launch: build(ServerConfig(inline_s=0.2))
server.main()
"""


def cancel_job(server):
    handle = server.read_answer(2)["result"]["structuredContent"]["job"]["id"]
    server.send_request(4, "tools/call", name="job", arguments={"id": handle, "action": "cancel"})


ACTIVITIES = {
    "compiling": ServerActivity(make_stalled_kernel, "build_kernel", is_compiling),
    "running": ServerActivity(make_endless_kernel, "bench_kernel", is_candidate_running),
    "waiting": ServerActivity(
        lambda project: make_broken_kernel(project, "right"),
        "bench_kernel",
        is_waiting_for_device,
        is_device_locked=True,
    ),
    "job": ServerActivity(
        make_endless_kernel,
        "bench_kernel",
        is_candidate_running,
        server_program=SERVE_AS_JOBS,
        cancel=cancel_job,
    ),
}


EXIT_CODES = {
    "cancel": 0,  # the server goes on; its input is closed afterwards
    "end of input": 0,
    "SIGTERM": 143,
    "SIGINT": 130,
    "SIGHUP": 129,
    "SIGKILL": -9,
    "client SIGKILL": None,  # unknown: only its killed parent could wait for it
}
"""Way to end a server → the server's exit code; None: cannot be known."""


class StdioServer:
    """A child server on stdio, driven by raw JSON-RPC without the SDK."""

    def __init__(self, folder, serve):
        self.process = subprocess.Popen(
            [sys.executable, "-c", serve],
            cwd=folder / "project",
            env=build_environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            preexec_fn=reset_signals,
        )
        who = {"name": "test", "version": "0"}
        self.send_request(
            1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=who
        )
        self.read_answer(1)
        self.send_notification("notifications/initialized")

    def send_request(self, number, method, **params):
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def send_notification(self, method, **params):
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def read_answer(self, number):
        """Return the answer to one request; skip other messages."""
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                return message
        raise EOFError(f"the server ended without an answer to {number}")

    def close(self):
        """Close the server's input, and return its exit code."""
        with suppress(OSError):
            self.process.stdin.close()
        code = self.process.wait(END_TIMEOUT_S)
        self.process.stdout.close()
        return code

    def _write(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")


def build_environment(folder):
    """Return an environment that names the folder: it identifies this shutdown's processes."""
    variables = {"TMPDIR": str(folder / "scratch"), "KB_DEVICE_QUEUE": str(folder / "queue")}
    return {**os.environ, **variables}


def _start_and_end(folder, work, how, holder):
    if how == "client SIGKILL":
        return _kill_client(folder, work, holder)
    server = StdioServer(folder, work.server_program)
    try:
        server.send_request(2, "tools/call", name=work.tool,
                   arguments={"kernel": "broken", "target": work.target})  # fmt: skip
        _wait_until(lambda: work.has_started(folder))
        started, code = time.monotonic(), None
        if how == "cancel":
            work.cancel(server)
        elif how == "end of input":
            code = server.close()
        else:
            server.process.send_signal(getattr(signal, how))
            code = server.process.wait(END_TIMEOUT_S)
        kept = {holder}
        if how == "cancel":
            kept |= {server.process.pid, *_find_watchers(folder)}
        seconds, left = _wait_until_gone(folder, kept, started)
        if how == "SIGKILL":  # nothing remains that could remove its files but the next server
            StdioServer(folder, work.server_program).close()
        files = _list_leftovers(folder, holder)
        if how == "cancel":
            with suppress(TimeoutError):  # the server answers before it removes its last file
                _wait_until(lambda: not _list_leftovers(folder, holder), END_TIMEOUT_S)
            files = _list_leftovers(
                folder, holder
            )  # listed before the input is closed, which removes files too
            server.send_request(3, "ping")
            server.read_answer(3)
            code = server.close()
        return ShutdownResult(seconds, code, left, files)
    finally:
        server.process.kill()
        server.close()


def _kill_client(folder, work, holder):
    argv = [sys.executable, "-c", CLIENT_PROGRAM, work.server_program, work.tool, work.target]
    client = subprocess.Popen(argv, cwd=folder / "project", env=build_environment(folder))
    try:
        _wait_until(lambda: work.has_started(folder))
    finally:
        started = time.monotonic()
        client.kill()
        client.wait()
    seconds, left = _wait_until_gone(folder, {holder}, started)
    return ShutdownResult(seconds, None, left, _list_leftovers(folder, holder))


def _wait_until_gone(folder, kept, started):
    """Wait until all processes of this shutdown have ended; kill those left after the timeout."""
    while left := {one: line for one, line in _find_processes(folder).items() if one not in kept}:
        if time.monotonic() - started > END_TIMEOUT_S:
            for one in left:
                with suppress(OSError):
                    os.kill(one, signal.SIGKILL)
            return None, sorted(left.values())
        time.sleep(0.005)
    return time.monotonic() - started, []


def _list_leftovers(folder, holder):
    found = [*(folder / "scratch").iterdir(), *(folder / "project").glob(".kb/build/*/.building-*")]
    held = sorted(one for one in _list_tickets(folder) if _is_locked(one))
    found += held[1:] if holder else held  # the first ticket is the holder's
    return [str(one.relative_to(folder)) for one in found]


def _list_tickets(folder):
    return list((folder / "queue").glob("*/[0-9]*"))


def _is_locked(ticket):
    with suppress(FileNotFoundError), ticket.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _wait_until(condition, seconds=START_TIMEOUT_S):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the work did not begin")
        time.sleep(0.02)


@contextmanager
def _hold_device(folder, wanted):
    if not wanted:
        yield None
        return
    argv = [sys.executable, "-c", HOLDER_PROGRAM]
    holder = subprocess.Popen(
        argv, env=build_environment(folder), stdout=subprocess.PIPE, text=True
    )
    try:
        holder.stdout.readline()
        yield holder.pid
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def _list_command_lines(folder):
    return list(_find_processes(folder).values())


def _find_watchers(folder):
    return [one for one, line in _find_processes(folder).items() if "serving/watcher.py" in line]


def _find_processes(folder):
    """Return live processes with the folder in command line, environment or working folder."""
    word, found = os.fsencode(folder), {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            line = (entry / "cmdline").read_bytes()
            there = os.fsencode((entry / "cwd").readlink())
            if word in line or word in there or word in (entry / "environ").read_bytes():
                state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
                if state not in "ZX":
                    found[int(entry.name)] = line.replace(b"\0", b" ").decode(errors="replace")
    return found


if __name__ == "__main__":
    sys.stdout.write(
        json.dumps(asdict(shut_down_server(ACTIVITIES[sys.argv[1]], sys.argv[2]))) + "\n"
    )
