"""What a client hears while it waits."""

import json
import re
import subprocess
import sys
import time
from itertools import pairwise
from typing import Annotated

import anyio
import pytest
from broken_kernels import make_broken_kernel
from mcp import Client
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from stalled_compiler import release_compiler, wait_for_process

from kernelkb.measure.machine.cached_facts import expected_seconds, record_duration
from kernelkb.progress import report_progress
from kernelkb_mcp.calls import long_calls
from kernelkb_mcp.calls.jobs import make_tool_call
from kernelkb_mcp.calls.long_calls import run_long_call
from kernelkb_mcp.calls.tool_adapter import KernelServer, build_strict_tool
from kernelkb_mcp.server import build_server
from kernelkb_mcp.server_config import ServerConfig
from kernelkb_mcp.tools import build_kernel as hints
from kernelkb_mcp.tools.job import job
from kernelkb_mcp.views.results import LongResult

BROKEN = {"kernel": "broken", "target": "cpu"}
WORDS = ("one", "two", "three", "four", "five", "six")


class Counted(LongResult):
    """How far it came."""

    count: int | None


async def count(ctx: Context) -> Annotated[CallToolResult, Counted]:
    """Count, and tell each number."""

    def work() -> Counted:
        for word in WORDS:
            report_progress(word)
            time.sleep(0.3)
        return Counted(summary="counted", count=len(WORDS), next=("count()",))

    return await run_long_call(ctx, Counted, make_tool_call("count"), work)


def make_counting_server(inline_s):
    tools = [build_strict_tool(tool, tool.__name__, hints.HINTS) for tool in (count, job)]
    return KernelServer(ServerConfig(inline_s=inline_s), tools=tools)


def call_with_progress(server, name, arguments, meanwhile=None):
    """Call a tool; return its result and the notifications: progress, total and message."""
    heard = []

    async def listen(*told):
        heard.append(told)

    async def run():
        async with Client(server) as client, anyio.create_task_group() as group:
            if meanwhile is not None:
                group.start_soon(meanwhile)
            result = await client.call_tool(name, arguments, progress_callback=listen)
            return result.structured_content

    return anyio.run(run), heard


@pytest.fixture
def counted_call(project):
    return call_with_progress(make_counting_server(45), "count", {})


def test_a_new_tool_that_may_take_long_is_a_few_lines(counted_call):
    result, _ = counted_call

    assert result["count"] == len(WORDS)
    assert result["job"] is None


def test_progress_always_grows(counted_call):
    _, heard = counted_call

    assert len(heard) > 2
    assert all(a < b for (a, *_), (b, *_) in pairwise(heard))


def test_a_client_is_notified_at_most_twice_a_second(counted_call):
    _, heard = counted_call

    assert all(b - a >= long_calls.MIN_MESSAGE_GAP_S for (a, *_), (b, *_) in pairwise(heard))


def test_a_message_names_the_activity_and_the_elapsed_time(counted_call):
    _, heard = counted_call
    said = [message for *_, message in heard]

    assert all(re.fullmatch(r"[a-z]+, \d+ s", message) for message in said)
    assert {message.partition(",")[0] for message in said[1:]} < set(WORDS)


def test_nothing_is_forecast_before_it_was_ever_seen(counted_call):
    _, heard = counted_call

    assert {total for _, total, _ in heard} == {None}


def test_the_second_call_is_forecast_from_the_first(project):
    call_with_progress(make_counting_server(45), "count", {})
    _, heard = call_with_progress(make_counting_server(45), "count", {})

    assert heard[-1][1] == pytest.approx(len(WORDS) * 0.3, rel=0.5)
    assert re.search(r" of about \d s$", heard[-1][2])


def test_progress_beyond_the_forecast_has_no_total(project, monkeypatch):
    monkeypatch.setattr("kernelkb_mcp.calls.long_calls.expected_seconds", lambda _call: 0.1)
    _, heard = call_with_progress(make_counting_server(45), "count", {})

    assert heard[-1][1] is None
    assert "of about 1 s" in heard[-1][2]


def test_waiting_for_a_job_reports_the_same_progress(project):
    server = make_counting_server(0)
    heard = []

    async def listen(*told):
        heard.append(told)

    async def run():
        async with Client(server) as client:
            first = (await client.call_tool("count", {})).structured_content["job"]["id"]
            wait = {"id": first, "action": "wait"}
            done = await client.call_tool("job", wait, progress_callback=listen)
            return done.structured_content

    done = anyio.run(run)

    assert done["result"]["count"] == len(WORDS)
    assert all(a < b for (a, *_), (b, *_) in pairwise(heard))


def test_a_silent_compiler_still_sends_progress(project, stalled_source, monkeypatch):
    monkeypatch.setattr(long_calls, "MAX_SILENCE_S", 0.6)

    async def wait():
        await wait_for_process(stalled_source)
        await anyio.sleep(2)
        release_compiler(stalled_source)

    _, heard = call_with_progress(build_server(), "build_kernel", BROKEN, wait)
    said = [message.partition(",")[0] for *_, message in heard]

    assert said.count("build naive") >= 3


def test_a_client_without_a_progress_token_gets_no_messages(project):
    make_broken_kernel(project, "right")
    ask = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
         "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "build_kernel", "arguments": BROKEN}},
    ]  # fmt: skip
    server = subprocess.Popen(
        [sys.executable, "-c", "from kernelkb_mcp.start import main; main()"],
        cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, bufsize=1,
    )  # fmt: skip
    server.stdin.writelines(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in ask)
    lines = [json.loads(server.stdout.readline()) for _ in range(2)]
    rest, _ = server.communicate(timeout=300)

    assert [line["id"] for line in lines] == [1, 2]
    assert rest == ""


def test_a_forecast_is_the_median_of_the_last_five(project):
    for seconds in (900, 900, 1, 2, 3, 4, 50):
        record_duration("bench_kernel(kernel='mine')", seconds)

    assert expected_seconds("bench_kernel(kernel='mine')") == 3
    assert expected_seconds("bench_kernel(kernel='other')") is None


def test_very_short_calls_are_not_recorded(project):
    record_duration("build_kernel(kernel='mine')", 0.2)

    assert expected_seconds("build_kernel(kernel='mine')") is None


def test_only_the_last_calls_are_remembered(project):
    for number in range(400):
        record_duration(f"bench_kernel(kernel='k{number}')", 10)

    assert expected_seconds("bench_kernel(kernel='k0')") is None
    assert expected_seconds("bench_kernel(kernel='k399')") == 10
