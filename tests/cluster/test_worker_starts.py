"""Workers start after what can be refused, and none is left where their start fails."""

import gc
import io
import os
import shlex
import signal
import stat
import sys
import threading
import time
import warnings

import psutil
import pytest
from simple_kernels import write_kernel

from kernelkb.cli import main
from kernelkb.cluster.choice import parse_workers
from kernelkb.cluster.cluster import open_cluster

# Dask closes its sockets and loops in threads that outlive a test.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
WORKERS = "ssh:127.0.0.1"


class StoppedError(Exception):
    """What a caller may raise at any time."""


@pytest.fixture(scope="module", autouse=True)
def _collect_sockets():
    """Collect what Dask leaves to the garbage collector before the tests of another module."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(3):
            gc.collect()


@pytest.fixture
def stalled_worker(tmp_path, monkeypatch):
    """The file with the process of a worker that never becomes ready, started instead of ssh."""
    told, program = tmp_path / "pid", tmp_path / "ssh"
    new, old = shlex.quote(f"{told}.new"), shlex.quote(str(told))
    program.write_text(f"#!/bin/sh\necho $$ > {new}\nmv {new} {old}\nexec sleep 600\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("KB_SSH_COMMAND", shlex.quote(str(program)))
    yield told
    if told.exists() and psutil.pid_exists(int(told.read_text())):
        os.kill(int(told.read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["sweep", "no_such"], "unknown kernel 'no_such'"),
        (["sweep", "--folder", "absent"], "absent is no folder of kernels"),
        (["sweep", "--tasks", "absent", "--candidates", "absent"], "name the folder"),
        (["sweep", "gemm", "--variant", "no-such"], "there is nothing to judge"),
        (["tune", "no_such"], "unknown kernel 'no_such'"),
    ],
)
def test_what_is_refused_starts_no_worker(project, stalled_worker, capsys, words, text):
    status = main([*words, "--workers", WORKERS])

    assert status == 2
    assert text in capsys.readouterr().err
    assert not stalled_worker.exists()


def test_files_that_hold_no_certificate_are_refused_at_once(project, capsys):
    write_kernel(project, "twice")
    (project / "broken.pem").write_bytes(bytes(range(256)))
    files = [f"--tls-{name}=broken.pem" for name in ("ca-file", "cert", "key")]
    status = main(["sweep", "twice", "--workers=tls://127.0.0.1:1", *files])

    assert status == 2
    assert "name no certificates and key of them in PEM" in capsys.readouterr().err


def test_an_address_of_another_host_is_refused(project, capsys):
    write_kernel(project, "twice")

    assert main(["sweep", "twice", "--listen", "192.0.2.1"]) == 2
    assert "no scheduler starts on 192.0.2.1; name an address" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["", "[1]", '{"address": "tls://127.0.0.1:1"}', "\x00"])
def test_an_order_that_no_client_sent_is_refused(line, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(line))

    assert main(["worker", "-"]) == 2
    assert "standard input holds no order" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [StoppedError, KeyboardInterrupt])
def test_an_exception_during_the_start_leaves_no_worker(stalled_worker, kind):
    def interrupt(number, frame):
        raise kind

    def interrupt_once_it_runs():
        while not stalled_worker.exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGUSR1)

    usual = signal.signal(signal.SIGUSR1, interrupt)
    watcher = threading.Thread(target=interrupt_once_it_runs, daemon=True)
    watcher.start()
    try:
        with pytest.raises(kind), open_cluster(parse_workers(WORKERS)):
            pytest.fail("no worker became ready")
    finally:
        signal.signal(signal.SIGUSR1, usual)
        watcher.join()

    assert not psutil.pid_exists(int(stalled_worker.read_text()))
