"""Lets a judge start its processes early and wait, before it loads a candidate, until it may go on.

A bench waits for the end of the check, whose candidate runs meanwhile. The one way that a candidate
has to slow processes of others is to take cores from them, so all get their cores back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from kernelkb.measure.worker.judge.processes.procfs import read_affinities, restore_affinities

_STDIN = 0


def wait_for_start(folder: Path, runner_pids: Iterable[int] = ()) -> None:
    """Write the file ``ready``, and wait for a byte or the end of standard input.

    Args:
        folder: Of the job.
        runner_pids: Of runners; they and this process get the cores back that they had before.
    """
    pids = (os.getpid(), *runner_pids)
    cores = {pid: read_affinities(pid) for pid in pids}
    (folder / "ready").touch()
    os.read(_STDIN, 1)
    for pid in pids:
        first = cores[pid].get(pid, frozenset())
        threads = {thread: cores[pid].get(thread, first) for thread in read_affinities(pid)}
        restore_affinities({thread: mask for thread, mask in threads.items() if mask})
