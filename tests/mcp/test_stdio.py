"""The server as a client starts it: a child that speaks over pipes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from broken import make
from calling import finished
from mcp import Client, StdioServerParameters
from processes import alive, cmdline, settled

SERVE = ["-c", "from mcp_server.server import main; main()"]


def talk(project, work, mode="auto"):
    parameters = StdioServerParameters(
        command=sys.executable, args=SERVE, cwd=project, env=dict(os.environ)
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

    count, answer = talk(project, work, mode)

    assert count == 7
    assert answer["kernels"][0]["gate"]["id"] == "stop-and-profile"


def test_the_whole_loop_over_pipes(project):
    make(project, "right")

    async def work(client):
        where = {"kernel": "broken", "target": "cpu"}
        return [
            await finished(client, "build_kernel", where),
            await finished(client, "bench_kernel", {**where, "workload": "tiny"}),
            await finished(client, "profile_kernel", {**where, "workload": "tiny"}),
            await finished(client, "log_session", {"goal": "try it", "kernel": "broken"}),
        ]

    built, timed, why, logged = talk(project, work)

    assert built["build"]["status"] == "built"
    assert timed["bench"]["speedup"] > 0
    assert why["profile"]["metrics"]["scalar_loop_count"] >= 1
    assert why["next"][0].startswith("recommend_fix(target='cpu', metrics=")
    assert [str(path) for path in (project / "sessions").iterdir()] == [logged["file"]]


def hello(project):
    server = subprocess.Popen(
        [sys.executable, *SERVE],
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    send(server, 1, "initialize", protocolVersion="2025-06-18", capabilities={},
         clientInfo={"name": "test", "version": "0"})  # fmt: skip
    first = json.loads(server.stdout.readline())
    assert first["result"]["serverInfo"]["name"] == "kernelkb"
    server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    return server


def send(server, number, method, **params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    server.stdin.write(json.dumps(message) + "\n")


def end(server):
    for pipe in (server.stdin, server.stdout, server.stderr):
        pipe.close()
    return server.wait(20)


def appears(word):
    for _ in range(600):
        if alive(word):
            return True
        time.sleep(0.05)
    return False


def test_the_end_of_input_is_a_clean_end(project):
    server = hello(project)

    assert end(server) == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, None])
def test_however_the_server_ends_the_kernel_ends_with_it(project, scratch, how):
    make(project, "endless")
    server = hello(project)
    arguments = {"kernel": "broken", "target": "cpu"}
    send(server, 2, "tools/call", name="bench_kernel", arguments=arguments)
    for _ in range(600):
        started = any("candidate" in cmdline(entry) for entry in alive(scratch))
        if started:
            break
        time.sleep(0.05)
    if how is not None:
        server.send_signal(how)
    end(server)

    assert started
    assert settled(scratch, 0)


@pytest.mark.parametrize("how", [signal.SIGTERM, None])
def test_however_the_server_is_asked_to_end_the_compiler_ends_with_it(project, stalled, how):
    server = hello(project)
    arguments = {"kernel": "broken", "target": "cpu"}
    send(server, 2, "tools/call", name="build_kernel", arguments=arguments)
    started = appears(stalled)
    if how is not None:
        server.send_signal(how)
    end(server)

    assert started
    assert settled(stalled, 0)


def test_a_signal_leaves_no_files_of_a_job(project, scratch):
    make(project, "endless")
    server = hello(project)
    arguments = {"kernel": "broken", "target": "cpu"}
    send(server, 2, "tools/call", name="bench_kernel", arguments=arguments)
    started = appears(scratch)
    server.send_signal(signal.SIGTERM)
    end(server)

    assert started
    assert list(Path(scratch).iterdir()) == []


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_told_by_the_exit_code(project, how, code):
    server = hello(project)
    server.send_signal(how)

    assert end(server) == code
