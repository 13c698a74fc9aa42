"""A server whose thread works in Python, which nothing can interrupt, ends with its client."""

import json
import os
import signal
import subprocess
import sys
import time

import httpx2
import pytest
from broken_kernels import make_broken_kernel
from http_server import TOKEN, serve_http
from processes import find_processes, reset_signals
from server_shutdowns import StdioServer

BUSY_PROGRAM = """
import kernelkb.actions.kernels.measure_variant as building
def work(*_, **__):
    open("begun", "w").close()
    while True:
        pass
building.build_variant = work
from kernelkb_mcp.start import main
main()
"""


def wait_for(path):
    end = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < end, "the work did not begin"
        time.sleep(0.05)


@pytest.fixture
def folder(tmp_path):
    for name in ("project/sessions", "scratch"):
        (tmp_path / name).mkdir(parents=True)
    make_broken_kernel(tmp_path / "project", "right")
    return tmp_path


@pytest.mark.slow
def test_the_end_of_the_input_ends_a_thread_at_work(folder):
    server = StdioServer(folder, BUSY_PROGRAM)
    try:
        arguments = {"kernel": "broken", "target": "cpu"}
        server.send_request(2, "tools/call", name="build_kernel", arguments=arguments)
        wait_for(folder / "project" / "begun")
        server.process.stdin.close()

        assert server.process.wait(30) == 0  # 40 s and more where threads are awaited
    finally:
        server.process.kill()
        server.close()


@pytest.mark.slow
def test_a_signal_ends_a_thread_at_work_over_http(folder):
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "0"},
        },
    }
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Accept": "application/json, text/event-stream",
    }
    with (
        serve_http(folder / "project", program=BUSY_PROGRAM) as server,
        httpx2.Client(timeout=60, headers=headers) as client,
    ):
        session = client.post(server.url, json=body).headers["Mcp-Session-Id"]
        arguments = {"kernel": "broken", "target": "cpu"}
        params = {"name": "build_kernel", "arguments": arguments}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        with client.stream("POST", server.url, json=call, headers={"Mcp-Session-Id": session}):
            wait_for(folder / "project" / "begun")
            server.process.send_signal(signal.SIGTERM)
            code = server.process.wait(30)

    assert code == 128 + signal.SIGTERM


def test_answers_that_are_ready_arrive_before_the_end(folder):
    who = {"name": "t", "version": "0"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    done = subprocess.run(
        [sys.executable, "-c", "from kernelkb_mcp.start import main; main()"],
        input=json.dumps(request) + "\n",
        cwd=folder / "project",
        env={**os.environ, "TMPDIR": str(folder / "scratch")},
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=reset_signals,
    )

    assert done.returncode == 0
    assert json.loads(done.stdout)["id"] == 1
    assert find_processes(str(folder / "scratch")) == []
