"""A process that reads what is from outside can be ended, also in the middle of a call in C."""

import signal
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Pipe
from pathlib import Path

import pytest
from processes import wait_until

from kernelkb.profiles import reader_process
from kernelkb.profiles.reader_process import read_in_process
from kernelkb.progress import OperationCancelled, cancel_on

LIMIT_S = 60
"""A match takes years."""
STUCK = """
import os, re
with open({begun!r} + "~", "w") as file:
    file.write(str(os.getpid()))
os.rename({begun!r} + "~", {begun!r})
re.search("(a+)+b", "a" * 100)
"""


def is_running(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def test_a_cancelled_call_ends_the_process(tmp_path):
    begun, stop = tmp_path / "begun", threading.Event()

    def cancel():
        wait_until(begun.exists)
        stop.set()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with cancel_on(stop), pytest.raises(OperationCancelled):
        read_in_process(exec, STUCK.format(begun=str(begun)), {})
    canceller.join()

    assert not is_running(int(begun.read_text()))


def test_the_end_of_the_parent_ends_the_process(tmp_path):
    begun = tmp_path / "begun"
    ours, theirs = Pipe()
    with ours, theirs:
        words = ["-P", "-m", "kernelkb.profiles.reader_process", str(theirs.fileno())]
        process = subprocess.Popen([sys.executable, *words], pass_fds=[theirs.fileno()])
        theirs.close()
        ours.send((exec, STUCK.format(begun=str(begun)), {}))
        wait_until(begun.exists)

    assert process.wait(LIMIT_S) == -signal.SIGIO


@pytest.mark.parametrize(
    ("text", "is_found"), [("x = 1\n", True), ("import no_such_module\n", False), (None, False)]
)
def test_the_reader_beside_ncu_is_taken_where_it_can_be_imported(
    text, is_found, tmp_path, monkeypatch
):
    home = tmp_path / "nsight-compute" / "2025.3.1"
    (folder := home / "extras" / "python").mkdir(parents=True)
    (home / "ncu").write_text("#!/bin/sh\n")
    (home / "ncu").chmod(0o755)
    if text is not None:
        (folder / "ncu_report.py").write_text(text)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ncu").symlink_to(home / "ncu")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(reader_process, "_INSTALLED", ())
    monkeypatch.setattr(sys, "path", [*sys.path])

    assert reader_process._find_beside_ncu.__wrapped__() == is_found
    assert (str(folder) in sys.path) == is_found
