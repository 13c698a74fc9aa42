"""What the tests of the cluster run on its workers; importable there by PYTHONPATH."""

import os
import signal
import subprocess
import time
from pathlib import Path


def produce(size):
    return b"x" * size


def measure(data, number, log=None):
    """Return what identifies the run; log one line for it."""
    if log is not None:
        note(log, f"{number}")
    return len(data), number, os.getpid()


def note(log, line):
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def hold_alone(folder, number):
    """Fail if another call of the same process is running."""
    mark = Path(folder) / str(os.getpid())
    with mark.open("x"):
        time.sleep(0.02)
    mark.unlink()
    return number


def end_worker(_data=None, log=None):
    if log is not None:
        note(log, "end")
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for(path, started, number=0):
    """Note that it started, then wait for a file."""
    note(started, f"{os.getpid()} {number}")
    while not Path(path).exists():
        time.sleep(0.02)
    return number


def fail(text):
    raise ValueError(text)


def get_child_niceness():
    """Return the niceness of a process that this one starts, such as a compiler."""
    said = subprocess.run(["nice"], stdout=subprocess.PIPE, check=True).stdout
    return int(said)
