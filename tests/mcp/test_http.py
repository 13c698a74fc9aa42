"""The server over HTTP: real requests to a real child."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import httpx2
import pytest
from broken_kernels import make_broken_kernel
from http_server import SERVER_COMMAND, TOKEN, serve_http
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from processes import find_processes, read_cmdline, wait_for_count

from kernelkb_mcp.serving.http import bind_socket
from kernelkb_mcp.serving.options import HttpConfig

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
BEARER = {"Authorization": f"Bearer {TOKEN}"}
BASE_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
ERA_HEADERS = {
    "2025-11-25": {},
    MODERN: {"MCP-Protocol-Version": MODERN, "Mcp-Method": "server/discover"},
}


def first_message(era):
    if era == MODERN:
        return {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}}
    hello = {
        "protocolVersion": era,
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}


@pytest.fixture(scope="module")
def http_server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    (folder / "sessions").mkdir()
    with serve_http(folder, "--allowed-origin", "http://localhost:6274") as server:
        yield server


def post_message(server, era, headers, content=None, path="/mcp"):
    body = json.dumps(first_message(era)) if content is None else content
    everything = {**BASE_HEADERS, **ERA_HEADERS[era], **headers}
    kept = {name: value for name, value in everything.items() if value is not None}
    with httpx2.Client(timeout=120) as client:
        return client.post(f"http://127.0.0.1:{server.port}{path}", content=body, headers=kept)


REQUESTS = {
    "with the token": (BEARER, 200),
    "with bearer in small letters": ({"Authorization": f"bearer {TOKEN}"}, 200),
    "by the name localhost": ({**BEARER, "Host": "localhost:{port}"}, 200),
    "from a page that may": ({**BEARER, "Origin": "http://localhost:6274"}, 200),
    "without a token": ({}, 401),
    "with an empty token": ({"Authorization": "Bearer"}, 401),
    "with another token": ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401),
    "with a longer token": ({"Authorization": f"Bearer {TOKEN}0"}, 401),
    "with the token as a password": ({"Authorization": f"Basic {TOKEN}"}, 401),
    "with letters that are no ASCII": ({"Authorization": "Bearer t\xf6ken".encode("latin-1")}, 401),
    "to another host": ({**BEARER, "Host": "evil.example"}, 421),
    "to a host that begins like ours": ({**BEARER, "Host": "127.0.0.1:99.evil.example"}, 421),
    "to our port of another host": ({**BEARER, "Host": "127.0.0.1:{port}.evil.example"}, 421),
    "to another port": ({**BEARER, "Host": "127.0.0.1:1"}, 421),
    "to a host without a port": ({**BEARER, "Host": "127.0.0.1"}, 421),
    "from a strange page": ({**BEARER, "Origin": "https://evil.example"}, 403),
    "from a file": ({**BEARER, "Origin": "null"}, 403),
    "from another page of this machine": ({**BEARER, "Origin": "http://localhost:3000"}, 403),
    "from a page that begins like ours": (
        {**BEARER, "Origin": "http://localhost:6274.evil.example"},
        403,
    ),
    "as text": ({**BEARER, "Content-Type": "text/plain"}, 400),
}


@pytest.mark.parametrize("era", ERA_HEADERS)
@pytest.mark.parametrize(("headers", "status"), REQUESTS.values(), ids=REQUESTS)
def test_only_authorised_requests_are_accepted(http_server, era, headers, status):
    port = str(http_server.port)
    ready = {k: v.replace("{port}", port) if isinstance(v, str) else v for k, v in headers.items()}

    assert post_message(http_server, era, ready).status_code == status


@pytest.mark.parametrize("era", ERA_HEADERS)
@pytest.mark.parametrize("second", [TOKEN, "another"])
def test_two_tokens_are_refused(http_server, era, second):
    headers = {**BASE_HEADERS, **ERA_HEADERS[era], **BEARER}
    twice = [*headers.items(), ("authorization", f"Bearer {second}")]
    with httpx2.Client(timeout=120) as client:
        answer = client.post(http_server.url, json=first_message(era), headers=twice)

    assert answer.status_code == 400


def test_a_request_with_an_odd_id_is_no_notification(http_server):
    era = "2025-11-25"
    session = post_message(http_server, era, BEARER).headers["Mcp-Session-Id"]
    body = json.dumps({"jsonrpc": "2.0", "id": 1000.0, "method": "ping"})
    headers = {**BEARER, "Mcp-Session-Id": session, "MCP-Protocol-Version": era}

    assert post_message(http_server, era, headers, body).status_code == 400


def test_a_refusal_says_how_to_come_in(http_server):
    refusal = post_message(http_server, MODERN, {})

    assert refusal.headers["WWW-Authenticate"].startswith("Bearer ")
    assert TOKEN not in refusal.text


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/mcp/", "/.well-known/oauth-protected-resource"]
)
def test_no_path_answers_without_the_token(http_server, path):
    assert post_message(http_server, MODERN, {}, path=path).status_code == 401


@pytest.mark.parametrize("era", ERA_HEADERS)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_five_megabytes_is_refused(http_server, era, chunked):
    body = b" " * (5 * 2**20)
    content = (body[at : at + 2**16] for at in range(0, len(body), 2**16)) if chunked else body
    try:
        status = post_message(http_server, era, BEARER, content=content).status_code
    except httpx2.TransportError:  # it answered and hung up while we were still sending
        status = 413

    assert status == 413
    assert post_message(http_server, era, BEARER).status_code == 200


def test_cors_preflight_allows_only_listed_origins(http_server):
    asks = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    with httpx2.Client() as client:
        told = [
            client.options(http_server.url, headers={**asks, "Origin": origin})
            for origin in ("http://localhost:6274", "https://evil.example")
        ]

    assert told[0].headers["Access-Control-Allow-Origin"] == "http://localhost:6274"
    assert "Access-Control-Allow-Origin" not in told[1].headers


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_of_either_era_gets_an_answer(http_server, mode):
    async def run():
        async with httpx2.AsyncClient(headers=BEARER, timeout=120) as web:
            transport = streamable_http_client(http_server.url, http_client=web)
            async with Client(transport, mode=mode) as client:
                return await client.call_tool("recommend_fix", {"speedup": 0.3, "occupancy": 0.4})

    answer = anyio.run(run).structured_content

    assert answer["kernels"][0]["gate"]["id"] == "stop-and-profile"


def test_a_new_token_is_printed_once_with_client_commands(project):
    with serve_http(project, token=None) as server:
        token = re.search(r"shown this once: (\S+)", server.startup_output)[1]
        status = post_message(server, MODERN, {"Authorization": f"Bearer {token}"}).status_code

    assert len(token) >= 43
    assert f'-H "Authorization: Bearer {token}"' in server.startup_output
    assert status == 200


def test_a_token_that_is_known_is_not_printed(http_server):
    assert TOKEN not in http_server.startup_output


def test_the_token_of_a_file_counts(project, tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN[::-1]}\n")
    file.chmod(0o600)
    with serve_http(project, "--token-file", str(file)) as server:
        found = [
            post_message(server, MODERN, {"Authorization": f"Bearer {token}"}).status_code
            for token in (TOKEN[::-1], TOKEN)
        ]

    assert found == [200, 401]


def run_failing_server(project, *words, **env):
    done = subprocess.run(
        [*SERVER_COMMAND, "--http", "--port", "0", *words],
        cwd=project, env={**os.environ, **env}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done


def test_a_token_that_others_may_read_is_refused(project, tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    done = run_failing_server(project, "--token-file", str(file))

    assert done.returncode == 2
    assert f"chmod 600 {file}" in done.stderr


@pytest.mark.parametrize(
    "token",
    [
        "short",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("", "a token with spaces in it, which is none")
        ),
    ],
)
def test_a_weak_token_is_refused(project, token):
    done = run_failing_server(project, KERNELKB_TOKEN=token)

    assert done.returncode == 2
    assert "KERNELKB_TOKEN holds no token" in done.stderr


def test_an_occupied_port_is_reported_in_one_line(project):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run_failing_server(
            project, "--port", str(taken.getsockname()[1]), KERNELKB_TOKEN=TOKEN
        )

    assert done.returncode == 2
    assert done.stderr.startswith("kb-mcp: cannot listen on 127.0.0.1:")


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_ends_the_server_and_the_kernel(project, scratch, how):
    make_broken_kernel(project, "endless")
    arguments = {"kernel": "broken", "target": "cpu"}
    body = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "bench_kernel", "arguments": arguments, "_meta": META},
    }
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": "bench_kernel"}
    headers = {**BASE_HEADERS, **BEARER, "MCP-Protocol-Version": MODERN, **headers}
    with (
        serve_http(project) as server,
        httpx2.Client(timeout=300) as client,
        ThreadPoolExecutor() as pool,
    ):
        # In a thread: the answer begins when the server turns the call into a job, after 15 s.
        call = pool.submit(client.post, server.url, json=body, headers=headers)
        started = wait_for_candidate(scratch)
        server.process.send_signal(how)
        code = server.process.wait(120)
        call.exception(timeout=120)

    assert started
    assert code == 128 + how
    assert wait_for_count(scratch, 0)


def wait_for_candidate(scratch):
    for _ in range(2400):
        if any("candidate" in read_cmdline(entry) for entry in find_processes(scratch)):
            return True
        time.sleep(0.05)
    return False


def test_small_answers_are_sent_at_once():
    """Nagle's algorithm and delayed acknowledgement would add 40 ms to each."""

    async def ask():
        accepted = asyncio.Future()
        with bind_socket(HttpConfig()) as channel:
            server = await asyncio.start_server(lambda _, w: accepted.set_result(w), sock=channel)
            async with server:
                _, client = await asyncio.open_connection(*channel.getsockname())
                served = await accepted
                answer = served.get_extra_info("socket").getsockopt(
                    socket.IPPROTO_TCP, socket.TCP_NODELAY
                )
                for writer in (client, served):
                    writer.close()
                    await writer.wait_closed()
        return answer

    assert asyncio.run(ask())
