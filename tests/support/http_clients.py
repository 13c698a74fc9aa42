"""Clients of a real server over HTTP: one that asks properly, and bare connections."""

import contextlib
import json
import socket

import httpx2
from http_server import TOKEN

HEADERS = {
    "Authorization": f"Bearer {TOKEN}",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"},
    },
}


def initialize(server, timeout=60):
    with httpx2.Client(timeout=timeout) as client:
        return client.post(server.url, content=json.dumps(HELLO), headers=HEADERS)


@contextlib.contextmanager
def open_connections(server, count, sent=b""):
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 30))
            if sent:
                one.sendall(sent)
            opened.append(one)
        yield opened


def stop_and_read_errors(server):
    server.process.terminate()
    server.process.wait(120)
    return server.process.stderr.read()
