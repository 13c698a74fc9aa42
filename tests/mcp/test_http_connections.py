"""Connections that send nothing, or only a part: they take the service away from no one."""

import contextlib
import json
import re
import resource
import time
from pathlib import Path

import pytest
from http_clients import HEADERS, HELLO, initialize, open_connections, stop_and_read_errors
from http_server import TOKEN, serve_http

HALF_HEADERS = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
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


def is_taken(connection, body):
    try:
        connection.sendall(body)
    except OSError:  # reset, or a broken pipe
        return False
    return True


def processor_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.parametrize("sent", [b"", HALF_HEADERS], ids=["idle", "half of the headers"])
def test_a_new_client_is_answered_beside_more_connections_than_descriptors(project, sent):
    with serve_http(project, descriptors=200) as server:
        with open_connections(server, 260, sent):
            answers = [initialize(server).status_code for _ in range(3)]
            before = processor_seconds(server.process)
            time.sleep(2)
            spent = processor_seconds(server.process) - before
        said = stop_and_read_errors(server)

    assert answers == [200] * 3
    assert spent < 1  # 2 where it tries to accept all the time
    assert "Traceback" not in said
    assert len(said) < 2000


@pytest.mark.parametrize(
    "sent",
    [b"", HALF_HEADERS, HALF_BODY],
    ids=["nothing", "half of the headers", "half of the body"],
)
def test_a_request_that_does_not_arrive_is_ended(project, sent):
    with serve_http(project) as server:
        text = sent % server.port if b"%d" in sent else sent
        with open_connections(server, 1, text) as (one,):
            one.settimeout(60)
            said = one.recv(1000)  # ends, or the time-out fails this test
        assert initialize(server).status_code == 200
        said_by_server = stop_and_read_errors(server)

    assert said == b""
    assert "Traceback" not in said_by_server


def test_a_refused_client_that_drips_its_body_is_ended(project):
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n"
    end = time.monotonic() + 60
    with serve_http(project) as server, open_connections(server, 1, head) as (one,):
        assert b" 401 " in one.recv(1000)
        while time.monotonic() < end and is_taken(one, b"x"):
            time.sleep(0.5)

    assert time.monotonic() < end


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
