"""Connections that send nothing, or only a part, and more of them than can be served."""

import contextlib
import json
import re
import resource
import time
from pathlib import Path

import pytest
from http_clients import HEADERS, HELLO, initialize, open_connections, stop_and_read_errors
from http_server import TOKEN, serve_http

HALF_BODY = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer "
    + TOKEN.encode()
    + b"\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)


@contextlib.contextmanager
def descriptor_limit(count):
    """Children start with this limit; ours is hard only for them, as ``ulimit -n`` in a shell."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def processor_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_with_more_connections_than_descriptors_others_are_told_and_served_afterwards(project):
    with serve_http(project, descriptors=200) as server:
        with open_connections(server, 120):  # of 100 that the limit allows
            busy = initialize(server).status_code
        end = time.monotonic() + 30
        while (after := initialize(server).status_code) != 200 and time.monotonic() < end:
            time.sleep(0.2)
        said = stop_and_read_errors(server)

    assert (busy, after) == (503, 200)
    assert "Traceback" not in said
    assert len(said) < 2000


@pytest.mark.slow
def test_connections_that_cannot_be_accepted_take_no_processor_and_few_lines(project):
    with serve_http(project, descriptors=200) as server:
        with open_connections(server, 260):
            before = processor_seconds(server.process)
            time.sleep(2)
            spent = processor_seconds(server.process) - before
        said = stop_and_read_errors(server)

    assert spent < 1  # 2 where it tries to accept all the time
    assert "Traceback" not in said
    assert len(said) < 2000


def test_a_body_that_does_not_arrive_is_answered_and_its_connection_ended(project):
    with serve_http(project) as server:
        with open_connections(server, 1, HALF_BODY % server.port) as (one,):
            one.settimeout(60)
            said = b"".join(iter(lambda: one.recv(1000), b""))  # ends, or the time-out fails this
        assert initialize(server).status_code == 200
        said_by_server = stop_and_read_errors(server)

    assert said.startswith(b"HTTP/1.1 408 ")
    assert "Traceback" not in said_by_server


@pytest.mark.slow
@pytest.mark.parametrize("era", [b"2025-11-25", b"2026-07-28"])
def test_a_client_that_hangs_up_in_its_body_leaves_no_stack(project, era):
    version = b"MCP-Protocol-Version: " + era + b"\r\nMcp-Method: server/discover\r\nContent-L"
    with serve_http(project) as server:
        request = (HALF_BODY % server.port).replace(b"Content-L", version)
        with open_connections(server, 5, request):
            time.sleep(0.5)
        assert initialize(server).status_code == 200
        said = stop_and_read_errors(server)

    assert "Traceback" not in said


def test_the_soft_limit_of_open_files_is_raised(project):
    with descriptor_limit(150), serve_http(project) as server:
        limits = Path(f"/proc/{server.process.pid}/limits").read_text()

    assert int(re.search(r"Max open files +(\d+)", limits)[1]) > 150


@pytest.mark.slow
def test_a_slow_request_is_not_ended(project):
    """A deadline ends no connection whose request has arrived and is being answered."""
    with serve_http(project) as server, open_connections(server, 1) as (one,):
        body = json.dumps(HELLO).encode()
        lines = [f"{name}: {value}" for name, value in HEADERS.items()]
        head = ["POST /mcp HTTP/1.1", f"Host: 127.0.0.1:{server.port}", *lines]
        text = "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body
        for at in range(0, len(text), 50):  # in pieces, for a second
            one.sendall(text[at : at + 50])
            time.sleep(0.05)

        assert b" 200 " in one.recv(4000)
