"""Appends to one session from several processes, which are killed at random.

As a program, it prints one line of JSON: the acknowledged entries, the number of killed writers
and the seconds taken. It is a separate program because it forks.
"""

import json
import os
import random
import selectors
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from kernelkb.model.records.session import SessionEntry
from kernelkb.record.sessions import append_entry

AT = datetime(2026, 11, 21, tzinfo=UTC)


def append_entries(name, first, count, pipe, folder):
    """Append numbered entries, and acknowledge each on the pipe after it is written."""
    for number in range(first, count):
        text = "x" * (number % 5 * 1500)  # up to 6000 bytes: a kill may come between pages
        goal = f"{name} {os.getpid()} {number}"
        append_entry(SessionEntry(session="s", at=AT, goal=goal, went_wrong=(text,)), folder)
        os.write(pipe, f"{number} {goal}\n".encode())
    os._exit(0)


def fork_writer(name, first, count, folder):
    """Fork a writer; return its process id and the read end of its acknowledgement pipe."""
    theirs, ours = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(theirs)
        try:
            append_entries(name, first, count, ours, folder)
        finally:
            os._exit(1)
    os.close(ours)
    return child, theirs


def run_killed_writers(folder, writers, count, kill_every, seed):
    """Return the acknowledged entries and the number of writers killed.

    ``kill_every`` is the mean time between kills in seconds; a killed writer is replaced.
    """
    random.seed(seed)
    acknowledged, killed = [], 0
    chooser = selectors.DefaultSelector()
    running = {}

    def start_writer(name, first):
        child, pipe = fork_writer(name, first, count, folder)
        running[pipe] = (name, child, [first])
        chooser.register(pipe, selectors.EVENT_READ)

    for name in range(writers):
        start_writer(name, 0)
    due = time.monotonic() + kill_every
    while running:
        for key, _ in chooser.select(timeout=max(0.0, due - time.monotonic())):
            name, child, following = running[key.fd]
            text = os.read(key.fd, 1 << 16).decode()  # lines are shorter than PIPE_BUF: never split
            for line in text.splitlines():
                number, goal = line.split(" ", 1)
                acknowledged.append(goal)
                following[0] = int(number) + 1
            if not text:
                chooser.unregister(key.fd)
                os.close(key.fd)
                del running[key.fd]
                status = os.waitpid(child, 0)[1]
                if following[0] < count:
                    assert os.WIFSIGNALED(status), "a writer failed by itself"
                    start_writer(name, following[0])
        if time.monotonic() >= due:
            due = time.monotonic() + random.uniform(0, 2 * kill_every)
            if running:
                os.kill(random.choice(list(running.values()))[1], signal.SIGKILL)
                killed += 1
    return acknowledged, killed


if __name__ == "__main__":
    started = time.monotonic()
    folder, writers, count, kill_every, seed = sys.argv[1:]
    done, killed = run_killed_writers(
        Path(folder), int(writers), int(count), float(kill_every), int(seed)
    )
    took = time.monotonic() - started
    sys.stdout.write(json.dumps({"acknowledged": done, "killed": killed, "seconds": took}))
