"""Releases a compiler that waits for a named pipe, and waits for processes to start."""

import contextlib
import os
import time
from pathlib import Path

import anyio
from processes import find_processes


def release_compiler(source):
    """Open and close the pipe next to ``source``: the compiler reads nothing and goes on."""
    pipe = Path(source).parent / "wait.txt"
    for _ in range(2400):
        with contextlib.suppress(OSError):
            end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            pipe.unlink()
            pipe.write_text("")
            os.close(end)
            return
        time.sleep(0.05)
    raise AssertionError("no compiler reads the pipe")


async def wait_for_process(word):
    """Wait for a process whose command line holds a word."""
    for _ in range(2400):
        if find_processes(word):
            return
        await anyio.sleep(0.05)
    raise AssertionError(f"no process names {word}")
