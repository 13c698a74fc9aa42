"""A server ends when it is asked to, also where a call in C holds Python's lock for years."""

import json
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
from broken_kernels import make_broken_kernel
from http_server import TOKEN, serve_http
from processes import reset_signals, wait_until
from server_shutdowns import StdioServer, build_environment

STUCK_PROGRAM = """
import re
import kernelkb.actions.kernels.measure_variant as building
from kernelkb.measure.process.subprocesses import scratch_folder
def work(*_, **__):
    with scratch_folder():
        open("begun", "w").close()
        re.search("(a+)+b", "a" * 100)
building.build_variant = work
from kernelkb_mcp.start import main
main()
"""
GREEDY_LOOP = """
import asyncio, signal
def new_event_loop():
    loop = asyncio.SelectorEventLoop()
    loop.add_signal_handler(signal.SIGUSR1, int)
    return loop
"""
"""In place of uvloop, whose loop also wants to be the one that hears of signals."""
CALL = {"name": "build_kernel", "arguments": {"kernel": "broken", "target": "cpu"}}
LIMIT_S = 60
"""It takes two seconds. The match takes years."""


@pytest.fixture
def folder(tmp_path):
    for name in ("project/sessions", "scratch"):
        (tmp_path / name).mkdir(parents=True)
    make_broken_kernel(tmp_path / "project", "right")
    return tmp_path


def list_children(pid):
    """Return the running children of a process."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state not in "ZX":
                found.append(entry)
    return found


@contextmanager
def stuck_server(folder):
    server = StdioServer(folder, STUCK_PROGRAM)
    try:
        children = list_children(server.process.pid)
        server.send_request(2, "tools/call", **CALL)
        wait_until((folder / "project" / "begun").exists)
        yield server
        wait_until(lambda: not any(child.exists() for child in children))
        assert not list((folder / "scratch").iterdir())
    finally:
        server.process.kill()
        server.close()


def test_the_end_of_the_input_ends_a_stuck_server(folder):
    with stuck_server(folder) as server:
        server.send_request(3, "ping")  # nobody reads it
        server.process.stdin.close()

        assert server.process.wait(LIMIT_S) == -signal.SIGKILL


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_ends_a_stuck_server(folder, how):
    with stuck_server(folder) as server:
        server.process.send_signal(getattr(signal, how))

        assert server.process.wait(LIMIT_S) == -signal.SIGKILL


def test_the_end_of_a_client_that_speaks_over_sockets_ends_a_stuck_server(folder):
    ours, theirs = socket.socketpair()  # as Node.js starts its children
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "t", "version": "0"}
    with ours, theirs:
        server = subprocess.Popen(
            [sys.executable, "-c", STUCK_PROGRAM],
            cwd=folder / "project",
            env=build_environment(folder),
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            preexec_fn=reset_signals,
        )
        theirs.close()
        for request in (
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": CALL},
        ):
            ours.sendall(json.dumps({"jsonrpc": "2.0", **request}).encode() + b"\n")
        wait_until((folder / "project" / "begun").exists)
        ours.close()
        try:
            assert server.wait(LIMIT_S) == -signal.SIGKILL
        finally:
            server.kill()


@pytest.mark.parametrize("loop", [None, GREEDY_LOOP], ids=["alone", "with uvloop"])
def test_a_signal_ends_a_stuck_server_of_http(folder, loop):
    if loop:
        (folder / "project" / "uvloop.py").write_text(loop)
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
    who = {"name": "t", "version": "0"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
    with (
        serve_http(folder / "project", program=STUCK_PROGRAM) as server,
        httpx2.Client(timeout=LIMIT_S, headers=headers) as client,
    ):
        first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        session = client.post(server.url, json=first).headers["Mcp-Session-Id"]
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": CALL}
        with (
            suppress(httpx2.RemoteProtocolError),
            client.stream("POST", server.url, json=call, headers={"Mcp-Session-Id": session}),
        ):
            wait_until((folder / "project" / "begun").exists)
            server.process.send_signal(signal.SIGTERM)

            assert server.process.wait(LIMIT_S) == -signal.SIGKILL


def test_the_watcher_ends_with_its_server(folder):
    server = StdioServer(folder, STUCK_PROGRAM)
    (watcher,) = list_children(server.process.pid)

    assert server.close() == 0
    wait_until(lambda: not watcher.exists())
