"""A call that has to wait for its device says so, and ends when it is told to."""

import signal
import subprocess
import sys
import time

import pytest
from broken_kernels import make_broken_kernel
from server_shutdowns import (
    HOLDER_PROGRAM,
    SERVE_AS_JOBS,
    StdioServer,
    build_environment,
    is_candidate_running,
    is_waiting_for_device,
    make_endless_kernel,
)


@pytest.fixture
def folder(tmp_path):
    for each in ("project/sessions", "scratch"):
        (tmp_path / each).mkdir(parents=True)
    return tmp_path


def wait_until(true):
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def read_job_activity(server, handle):
    """What a job does now."""
    server.send_request(3, "tools/call", name="job", arguments={"id": handle})
    return server.read_answer(3)["result"]["structuredContent"]["job"]["now"]


def test_a_job_says_how_many_are_before_it(folder):
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


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_command_that_is_ended_leaves_nothing(folder, how):
    make_endless_kernel(folder / "project")
    argv = [sys.executable, "-c", "from kernelkb.cli import main; raise SystemExit(main())"]
    command = subprocess.Popen(
        [*argv, "bench", "broken", "--target", "cpu"],
        cwd=folder / "project",
        env=build_environment(folder),
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: is_candidate_running(folder))
    command.send_signal(how)
    code = command.wait(30)

    assert code == 128 + how
    assert list((folder / "scratch").iterdir()) == []
