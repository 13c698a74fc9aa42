"""A call that waits for its device reports its place, and ends when it is told to."""

import signal
import subprocess
import sys
import time

import pytest
from broken_kernels import make_broken_kernel
from processes import ignore_signals, reset_signals
from server_shutdowns import (
    HOLDER_PROGRAM,
    SERVE_AS_JOBS,
    StdioServer,
    build_environment,
    is_candidate_running,
    is_waiting_for_device,
    make_endless_kernel,
)
from slow_examples import mark_slow


@pytest.fixture
def folder(tmp_path):
    for each in ("project/sessions", "scratch"):
        (tmp_path / each).mkdir(parents=True)
    return tmp_path


def wait_until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def read_job_activity(server, handle):
    """Return the current activity of a job."""
    server.send_request(3, "tools/call", name="job", arguments={"id": handle})
    return server.read_answer(3)["result"]["structuredContent"]["job"]["now"]


def test_a_job_reports_its_place_in_the_device_queue(folder):
    make_broken_kernel(folder / "project", "right")
    argv = [sys.executable, "-c", HOLDER_PROGRAM]
    holder = subprocess.Popen(
        argv, env=build_environment(folder), stdout=subprocess.PIPE, text=True
    )
    holder.stdout.readline()
    server = StdioServer(folder, SERVE_AS_JOBS)
    try:
        server.send_request(2, "tools/call", name="bench_kernel",
                   arguments={"kernel": "broken", "target": "cpu", "workload": "tiny"})  # fmt: skip
        handle = server.read_answer(2)["result"]["structuredContent"]["job"]["id"]
        wait_until(lambda: is_waiting_for_device(folder))
        wait_until(lambda: read_job_activity(server, handle) == "waiting for the CPU: 1 before us")
        holder.kill()
        wait_until(lambda: not read_job_activity(server, handle).startswith("waiting"))
        going_on = read_job_activity(server, handle)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
        server.close()

    assert going_on in ("the CPU is free", "check naive", "bench naive", "done")


def start_bench(folder, preexec_fn):
    """Start ``kb bench`` of an endless kernel; return it once its candidate runs."""
    make_endless_kernel(folder / "project")
    argv = [sys.executable, "-c", "from kernelkb.cli import main; raise SystemExit(main())"]
    command = subprocess.Popen(
        [*argv, "bench", "broken", "--target", "cpu"],
        cwd=folder / "project",
        env=build_environment(folder),
        stderr=subprocess.DEVNULL,
        preexec_fn=preexec_fn,
    )
    wait_until(lambda: is_candidate_running(folder))
    return command


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    mark_slow([signal.SIGTERM, signal.SIGHUP, signal.SIGINT], [signal.SIGHUP, signal.SIGINT]),
)
def test_a_command_that_a_signal_ends_leaves_nothing(folder, number):
    command = start_bench(folder, reset_signals)
    command.send_signal(number)
    code = command.wait(60)

    assert code == 128 + number
    assert list((folder / "scratch").iterdir()) == []


@pytest.mark.slow
def test_a_command_under_nohup_survives_a_hangup_and_is_ended_by_sigterm(folder):
    command = start_bench(folder, ignore_signals)
    for number in (signal.SIGHUP, signal.SIGINT):
        command.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        command.wait(1)
    command.terminate()
    code = command.wait(60)

    assert code == 128 + signal.SIGTERM
    assert list((folder / "scratch").iterdir()) == []
