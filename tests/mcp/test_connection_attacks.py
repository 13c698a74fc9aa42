"""What a stranger without a token tried over HTTP: each leaves the service to others."""

import pytest
from http_clients import initialize, open_connections, stop_and_read_errors
from http_server import serve_http
from slow_examples import mark_slow

REQUEST = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
ATTACKS = {
    "answers that are never read": REQUEST * 20_000,
    "a header without end": b"POST /mcp HTTP/1.1\r\nX: " + b"x" * 2**20,
    "headers without end": b"POST /mcp HTTP/1.1\r\n" + b"X: x\r\n" * 2**17,
    "a chunk of many gigabytes": (
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"fffffffffffff\r\n" + b"x" * 2**16
    ),
    "an upgrade": b"GET /mcp HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("how", mark_slow(ATTACKS, ATTACKS.keys() - {"a header without end"}))
def test_others_are_answered_and_stderr_stays_short(project, how):
    with serve_http(project, descriptors=200) as server:
        with open_connections(server, 20) as connections:
            for one in connections:
                one.settimeout(0.2)
                try:
                    one.sendall(ATTACKS[how])
                except OSError:  # refused, or the buffers are full: both are fine
                    continue
            assert initialize(server).status_code == 200
        said = stop_and_read_errors(server)

    assert "Traceback" not in said
    assert len(said) < 2000
