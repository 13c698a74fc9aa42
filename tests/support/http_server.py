"""Starts a real kb-mcp child process that serves HTTP on a free port."""

import os
import re
import resource
import subprocess
import sys
from contextlib import contextmanager
from typing import NamedTuple

from processes import reset_signals

SERVER_PROGRAM = "from kernelkb_mcp.start import main; main()"
SERVER_COMMAND = [sys.executable, "-c", SERVER_PROGRAM]
TOKEN = "a-token-that-nobody-has-to-guess-0123456789"  # noqa: S105 a test server only


class HttpServer(NamedTuple):
    """A running server, its port, and its stderr output up to the start."""

    process: subprocess.Popen
    port: int
    startup_output: str

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/mcp"


@contextmanager
def serve_http(folder, *words, token=TOKEN, descriptors=None, program=SERVER_PROGRAM, **more):
    """Serve a folder; ``words`` follow ``--http --port 0``, ``more`` sets environment variables.

    ``descriptors`` is the hard and soft limit of open files, as ``ulimit -n`` sets it.
    """

    def prepare():
        reset_signals()
        if descriptors:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    env = {name: value for name, value in os.environ.items() if name != "KERNELKB_TOKEN"}
    env |= {"KERNELKB_TOKEN": token} if token else {}
    process = subprocess.Popen(
        [sys.executable, "-c", program, "--http", "--port", "0", *words],
        cwd=folder,
        env={**env, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,
    )
    try:
        said = ""
        while "codex mcp add" not in said:
            line = process.stderr.readline()
            assert line, f"it ended: {said}"
            said += line
        yield HttpServer(process, int(re.search(r":(\d+)/mcp", said)[1]), said)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
