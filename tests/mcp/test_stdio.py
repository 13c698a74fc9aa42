"""The server as a client starts it: a child that speaks over pipes."""

import json
import os
import signal
import subprocess
import sys

import anyio
import pytest
from broken import make
from client_calls import finished
from mcp import Client, StdioServerParameters

SERVE = ["-c", "from kernelkb_mcp.start import main; main()"]


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

    assert count == 9
    assert answer["kernels"][0]["gate"]["id"] == "stop-and-profile"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_both_protocol_eras_read_and_prompt(project, mode):
    async def work(client):
        listed = await client.list_resources()
        page = await client.read_resource("kb://patterns/profile-before-optimize")
        prompt = await client.get_prompt("session_start", {"kernel": "gemm"})
        return len(listed.resources), page.contents[0].text, prompt.messages[0].content.text

    count, text, said = talk(project, work, mode)

    assert count > 100
    assert text.startswith("# Profile before changing anything")
    assert said.startswith("# A session on gemm")


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
    assert why["next"][0].startswith(f"recommend_fix(run='{why['profile']['measurement'][:12]}')")
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


def test_the_end_of_input_is_a_clean_end(project):
    server = hello(project)

    assert end(server) == 0


@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_is_told_by_the_exit_code(project, how, code):
    server = hello(project)
    server.send_signal(how)

    assert end(server) == code


def test_a_start_loads_neither_rich_nor_what_only_measurements_need():
    code = (
        "import sys; from kernelkb_mcp import server; "
        "server._log_plainly(); server.build_server(); "
        "print(sorted({'rich', 'sqlalchemy', 'networkx', 'yaml', 'torch'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout == "[]\n", done.stderr
