"""The server as a client starts it: a child that speaks over pipes."""

import json
import os
import signal
import subprocess
import sys

import anyio
import pytest
from broken_kernels import make_broken_kernel
from client_calls import call_and_wait
from mcp import Client, StdioServerParameters
from processes import reset_signals
from slow_examples import mark_slow

SERVER_ARGS = ["-c", "from kernelkb_mcp.start import main; main()"]


def run_client(project, work, mode="auto"):
    parameters = StdioServerParameters(
        command=sys.executable, args=SERVER_ARGS, cwd=project, env=dict(os.environ)
    )

    async def run():
        async with Client(parameters, mode=mode) as client:
            return await work(client)

    return anyio.run(run)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_both_protocol_eras_list_and_answer(project, mode):
    async def work(client):
        listed = await client.list_tools()
        answer = await client.call_tool("recommend_fix", {"speedup": 0.3, "occupancy": 0.4})
        return len(listed.tools), answer.structured_content

    count, answer = run_client(project, work, mode)

    assert count == 10
    assert answer["kernels"][0]["gate"]["id"] == "stop-and-profile"


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])
def test_both_protocol_eras_read_and_prompt(project, mode):
    async def work(client):
        listed = await client.list_resources()
        page = await client.read_resource("kb://patterns/profile-before-optimize")
        prompt = await client.get_prompt("session_start", {"kernel": "gemm"})
        return len(listed.resources), page.contents[0].text, prompt.messages[0].content.text

    count, text, said = run_client(project, work, mode)

    assert count > 100
    assert text.startswith("# Profile before changing anything")
    assert said.startswith("# A session on gemm")


@pytest.mark.slow
def test_the_whole_loop_over_pipes(project):
    make_broken_kernel(project, "right")

    async def work(client):
        where = {"kernel": "broken", "target": "cpu"}
        return [
            await call_and_wait(client, "build_kernel", where),
            await call_and_wait(client, "bench_kernel", {**where, "workload": "tiny"}),
            await call_and_wait(client, "profile_kernel", {**where, "workload": "tiny"}),
            await call_and_wait(
                client, "session", {"action": "log", "goal": "try it", "kernel": "broken"}
            ),
        ]

    built, timed, why, logged = run_client(project, work)

    assert built["build"]["status"] == "built"
    assert timed["bench"]["speedup"] > 0
    assert why["profile"]["metrics"]["scalar_loop_count"] >= 1
    assert why["next"][0].startswith(f"recommend_fix(run='{why['profile']['measurement'][:12]}')")
    assert [str(path) for path in (project / "sessions").iterdir()] == [logged["file"]]


def start_server(project):
    server = subprocess.Popen(
        [sys.executable, *SERVER_ARGS],
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
        preexec_fn=reset_signals,
    )
    send_message(server, 1, "initialize", protocolVersion="2025-06-18", capabilities={},
         clientInfo={"name": "test", "version": "0"})  # fmt: skip
    first = json.loads(server.stdout.readline())
    assert first["result"]["serverInfo"]["name"] == "kernelkb"
    server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    return server


def send_message(server, number, method, **params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    server.stdin.write(json.dumps(message) + "\n")


def close_server(server):
    for pipe in (server.stdin, server.stdout, server.stderr):
        pipe.close()
    return server.wait(120)


def test_the_end_of_input_is_a_clean_end(project):
    server = start_server(project)

    assert close_server(server) == 0


def test_a_client_that_no_longer_reads_is_no_traceback(project):
    server = start_server(project)
    server.stdout.close()
    for number in range(2, 5):
        send_message(server, number, "tools/list")
    server.stdin.close()
    complaint = server.stderr.read()

    assert close_server(server) == 0
    assert complaint == ""


@pytest.mark.parametrize(
    ("how", "code"),
    [
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),
    ],
)
def test_a_signal_sets_the_exit_code(project, how, code):
    server = start_server(project)
    server.send_signal(how)

    assert close_server(server) == code


def test_start_up_imports_neither_rich_nor_measuring_modules():
    code = (
        "import sys; from kernelkb_mcp import server; "
        "server._configure_plain_logging(); server.build_server(); "
        "print(sorted({'rich', 'sqlalchemy', 'networkx', 'yaml', 'torch'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout == "[]\n", done.stderr


FIRST_LINE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"t","version":"0"}}}'
)
BAD_LINES = {
    "half a surrogate": (r'{"jsonrpc":"2.0","id":1,"method":"\ud800"}', -32700),
    "no JSON": ("{", -32700),
    "bytes that are no text": (b"\xff\xfe{", -32700),
    "no message": ('{"jsonrpc":"2.0","id":{},"method":5}', -32600),
}
ODD_REQUESTS = {
    "a list of params": ('{"jsonrpc":"2.0","id":"mine","method":"ping","params":[1]}', "mine"),
    "params that are text": ('{"jsonrpc":"2.0","id":7,"method":"ping","params":"x"}', 7),
    "an exponent": ('{"jsonrpc":"2.0","id":1e3,"method":"ping"}', 1000),
    "a fraction": ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 1.5),
    "true": ('{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
    "a batch": ('[{"jsonrpc":"2.0","id":8,"method":"ping"}]', None),
}


def test_an_odd_request_is_refused_with_its_own_id(project):
    lines = [FIRST_LINE.decode(), *(line for line, _ in ODD_REQUESTS.values()), ""]
    done = subprocess.run(
        [sys.executable, *SERVER_ARGS],
        cwd=project,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=reset_signals,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    refused = [one["id"] for one in answers if one.get("error", {}).get("code") == -32600]

    assert refused == [own for _, own in ODD_REQUESTS.values()]


@pytest.mark.parametrize("how", mark_slow(BAD_LINES, BAD_LINES.keys() - {"no JSON"}))
def test_a_line_that_is_no_message_is_answered(project, how):
    line, code = BAD_LINES[how]
    bad = line if isinstance(line, bytes) else line.encode()
    ping = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
    done = subprocess.run(
        [sys.executable, *SERVER_ARGS],
        cwd=project,
        input=b"\n".join([b"", bad, b"", FIRST_LINE, ping, b""]),
        capture_output=True,
        timeout=300,
        preexec_fn=reset_signals,
    )
    answers = [json.loads(one) for one in done.stdout.splitlines()]
    errors = [one["error"]["code"] for one in answers if one["id"] is None]

    assert errors == [code]
    assert {1} <= {one["id"] for one in answers if "result" in one}
    assert b"Traceback" not in done.stderr
