"""A server in the middle of some work, ended in some way: what is left of it, and for how long.

As a program, ``endings.py WORK HOW`` prints one ending as JSON.
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

from broken import HEAD, make

PATIENCE_S = 30
UNDER_WAY_S = 120

CLIENT = """
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

HOLDER = """
import time
from kernelkb.measure.process.device_queue import turn
with turn("cpu", str):
    print("holds", flush=True)
    time.sleep(600)
"""


@dataclass(frozen=True)
class Work:
    """Something that a server is in the middle of."""

    prepare: Callable[[Path], object]
    """Puts the kernel ``broken`` into a project."""
    tool: str
    under_way: Callable[[Path], bool]
    """Whether it is being done, told from outside; takes the folder of this ending."""
    queued: bool = False
    """Somebody else has the device."""
    target: str = "cpu"
    serve: str = "from kernelkb_mcp.start import main; main()"
    cancel: Callable[["Server"], object] = lambda server: server.say(
        "notifications/cancelled", requestId=2
    )
    """How a client says that it wants no answer."""


@dataclass(frozen=True)
class Ending:
    """What came of it."""

    seconds: float | None
    """Until the last process was gone; None where one stayed."""
    code: int | None
    """The server's; None where its client was killed, and nobody could ask."""
    left: list[str]
    """Command lines of processes that stayed."""
    files: list[str]
    """Folders of jobs and of builds that stayed, and places in a queue that somebody holds."""


def run(work, how):
    """End a server in the middle of some work, and return what came of it."""
    with tempfile.TemporaryDirectory(prefix="kb-ending-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for each in ("project/sessions", "scratch"):
            (folder / each).mkdir(parents=True)
        work.prepare(folder / "project")
        with _held(folder, work.queued) as holder:
            return _ended(folder, work, how, holder)


def compiling(folder):
    source = str(folder / "project" / "kernels" / "broken" / "naive.cpp")
    return any("cc1plus" in line and source in line for line in _lines(folder))


def running(folder):
    return any((folder / "scratch").glob("kernelkb-*/candidate/begun"))


def waiting(folder):
    return len(_tickets(folder)) == 2


def stalled(project):
    """A kernel whose compiler waits for a pipe that nobody writes to."""
    folder = make(project, "right")
    os.mkfifo(folder / "wait.txt")
    source = folder / "naive.cpp"
    source.write_text(f'#include "wait.txt"\n{source.read_text()}')


def endless(project):
    """A kernel that says that it has begun, and does not end."""
    body = 'std::fclose(std::fopen("begun", "w")); for (volatile long n = 0;; n = n + 1) {}'
    (make(project, "right") / "naive.cpp").write_text(f"{HEAD}  {body}\n}}\n")


AS_JOBS = """
import kernelkb_mcp.server as server
from kernelkb_mcp.server_config import Launch
build = server.build_server
server.build_server = lambda launch: build(Launch(inline_s=0.2))
server.main()
"""


def cancel_job(server):
    handle = server.answer(2)["result"]["structuredContent"]["job"]["id"]
    server.ask(4, "tools/call", name="job", arguments={"id": handle, "action": "cancel"})


WORKS = {
    "compiling": Work(stalled, "build_kernel", compiling),
    "running": Work(endless, "bench_kernel", running),
    "waiting": Work(lambda project: make(project, "right"), "bench_kernel", waiting, queued=True),
    "job": Work(endless, "bench_kernel", running, serve=AS_JOBS, cancel=cancel_job),
}


CODES = {
    "cancel": 0,  # the input ends afterwards
    "end of input": 0,
    "SIGTERM": 143,
    "SIGINT": 130,
    "SIGHUP": 129,
    "SIGKILL": -9,
    "client SIGKILL": None,  # whoever could ask is gone
}
"""Ways to end, and the exit code of the server that each gives."""


class Server:
    """A server that this process started, and speaks to without an SDK."""

    def __init__(self, folder, serve):
        self.process = subprocess.Popen(
            [sys.executable, "-c", serve],
            cwd=folder / "project",
            env=environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        who = {"name": "test", "version": "0"}
        self.ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=who)
        self.answer(1)
        self.say("notifications/initialized")

    def ask(self, number, method, **params):
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def say(self, method, **params):
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, number):
        """Return the answer to one question; what else was said is passed over."""
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                return message
        raise EOFError(f"the server ended without an answer to {number}")

    def close(self):
        """End its input, and return its exit code."""
        with suppress(OSError):
            self.process.stdin.close()
        code = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        return code

    def _write(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")


def environment(folder):
    """What names the folder is of this ending: processes are found by it."""
    own = {"TMPDIR": str(folder / "scratch"), "KB_TURNS": str(folder / "turns")}
    return {**os.environ, **own}


def _ended(folder, work, how, holder):
    if how == "client SIGKILL":
        return _client_killed(folder, work, holder)
    server = Server(folder, work.serve)
    try:
        server.ask(2, "tools/call", name=work.tool,
                   arguments={"kernel": "broken", "target": work.target})  # fmt: skip
        _wait_until(lambda: work.under_way(folder))
        started, code = time.monotonic(), None
        if how == "cancel":
            work.cancel(server)
        elif how == "end of input":
            code = server.close()
        else:
            server.process.send_signal(getattr(signal, how))
            code = server.process.wait(PATIENCE_S)
        kept = {holder, server.process.pid} if how == "cancel" else {holder}
        seconds, left = _gone(folder, kept, started)
        files = _files(folder, holder)
        if how == "cancel":
            with suppress(TimeoutError):  # nobody waits for the last of it but us
                _wait_until(lambda: not _files(folder, holder), PATIENCE_S)
            files = _files(folder, holder)  # before the end of input, which clears them away too
            server.ask(3, "ping")
            server.answer(3)
            code = server.close()
        return Ending(seconds, code, left, files)
    finally:
        server.process.kill()
        server.close()


def _client_killed(folder, work, holder):
    argv = [sys.executable, "-c", CLIENT, work.serve, work.tool, work.target]
    client = subprocess.Popen(argv, cwd=folder / "project", env=environment(folder))
    try:
        _wait_until(lambda: work.under_way(folder))
    finally:
        started = time.monotonic()
        client.kill()
        client.wait()
    seconds, left = _gone(folder, {holder}, started)
    return Ending(seconds, None, left, _files(folder, holder))


def _gone(folder, kept, started):
    """Wait until nobody of this ending is alive; kill who stays."""
    while left := {one: line for one, line in _processes(folder).items() if one not in kept}:
        if time.monotonic() - started > PATIENCE_S:
            for one in left:
                with suppress(OSError):
                    os.kill(one, signal.SIGKILL)
            return None, sorted(left.values())
        time.sleep(0.005)
    return time.monotonic() - started, []


def _files(folder, holder):
    found = [*(folder / "scratch").iterdir(), *(folder / "project").glob(".kb/build/*/.building-*")]
    held = sorted(one for one in _tickets(folder) if _locked(one))
    found += held[1:] if holder else held  # the first one is the holder's
    return [str(one.relative_to(folder)) for one in found]


def _tickets(folder):
    return list((folder / "turns").glob("*/[0-9]*"))


def _locked(ticket):
    with suppress(FileNotFoundError), ticket.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _wait_until(true, seconds=UNDER_WAY_S):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("the work did not begin")
        time.sleep(0.02)


@contextmanager
def _held(folder, held):
    if not held:
        yield None
        return
    argv = [sys.executable, "-c", HOLDER]
    holder = subprocess.Popen(argv, env=environment(folder), stdout=subprocess.PIPE, text=True)
    try:
        holder.stdout.readline()
        yield holder.pid
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def _lines(folder):
    return list(_processes(folder).values())


def _processes(folder):
    """Whoever is alive and has the folder in its words, its environment or as where it works."""
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
    sys.stdout.write(json.dumps(asdict(run(WORKS[sys.argv[1]], sys.argv[2]))) + "\n")
