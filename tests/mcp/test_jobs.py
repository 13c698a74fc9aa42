"""Work that outlasts its call: handed out, found again, waited for, ended."""

import os
import re
import subprocess
import sys

import anyio
import pytest
from broken_kernels import make_broken_kernel
from mcp import Client, MCPError, StdioServerParameters
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent
from processes import find_processes, read_cmdline, wait_for_count
from stalled_compiler import release_compiler, wait_for_process

from kernelkb_mcp.calls.jobs import JobRegistry, make_tool_call
from kernelkb_mcp.server import build_server
from kernelkb_mcp.server_config import ServerConfig

BROKEN = {"kernel": "broken", "target": "cpu"}
DETACH_AT_ONCE = ServerConfig(inline_s=0)
SERVER_PROGRAM = (
    "from dataclasses import replace; from kernelkb_mcp.server import build_server, main\n"
    "import kernelkb_mcp.server as server\n"
    "server.build_server = lambda launch: build_server(replace(launch, inline_s=0.2))\n"
    "main()"
)


def run_client(work, launch=DETACH_AT_ONCE):
    async def run():
        async with Client(build_server(launch)) as client:
            return await work(client)

    return anyio.run(run)


async def get_job(client, **arguments):
    return (await client.call_tool("job", arguments)).structured_content


def test_work_that_is_over_soon_is_answered_plainly(project):
    make_broken_kernel(project, "right")

    async def work(client):
        return (await client.call_tool("build_kernel", BROKEN)).structured_content

    found = run_client(work, ServerConfig())

    assert found["job"] is None
    assert found["build"]["status"] == "built"


def test_work_that_takes_long_comes_back_as_a_handle(project, stalled_source):
    async def work(client):
        return (await client.call_tool("build_kernel", BROKEN)).structured_content

    found = run_client(work)

    assert found["build"] is None
    assert found["job"]["status"] == "running"
    assert found["next"] == [f"job(id='{found['job']['id']}', action='wait')"]
    assert re.fullmatch("build-[0-9a-f]{32}", found["job"]["id"])


def test_a_finished_job_holds_what_its_tool_returns(project):
    make_broken_kernel(project, "right")

    async def work(client):
        first = (await client.call_tool("build_kernel", BROKEN)).structured_content
        job = await get_job(client, id=first["job"]["id"], action="wait")
        again = await get_job(client, id=first["job"]["id"])
        return job, again

    job, again = run_client(work)

    assert job["job"]["status"] == "done"
    assert job["result"]["build"]["status"] == "built"
    assert job["next"] == job["result"]["next"]
    assert again == job


def test_a_failed_job_reports_the_error_of_its_tool(project):
    async def work(client):
        call = {"kernel": "row_softmx", "target": "cpu"}
        first = (await client.call_tool("build_kernel", call)).structured_content
        return await get_job(client, id=first["job"]["id"], action="wait")

    job = run_client(work)

    assert job["job"]["status"] == "failed"
    assert "did you mean 'row_softmax'?" in job["job"]["error"]
    assert job["next"] == ["build_kernel(kernel='row_softmx', target='cpu')"]


@pytest.mark.parametrize("action", ["status", "wait", "cancel"])
def test_an_unknown_handle_names_the_cure_and_the_running_jobs(project, stalled_source, action):
    async def work(client):
        live = (await client.call_tool("build_kernel", BROKEN)).structured_content["job"]["id"]
        return live, await client.call_tool("job", {"id": "bench-0", "action": action})

    live, answer = run_client(work)

    assert answer.is_error
    for word in ("'bench-0'", "run the tool again", "recommend_fix(run=", "kb lab history", live):
        assert word in answer.content[0].text


def test_without_a_handle_the_jobs_are_listed_newest_first(project, stalled_source):
    async def work(client):
        first = (await client.call_tool("build_kernel", BROKEN)).structured_content["job"]["id"]
        second = (await client.call_tool("bench_kernel", BROKEN)).structured_content["job"]["id"]
        return [second, first], await get_job(client)

    handles, listed = run_client(work)

    assert [job["id"] for job in listed["jobs"]] == handles
    assert listed["next"] == [f"job(id='{handles[0]}', action='wait')"]


@pytest.mark.parametrize("seconds", [-1, 45.5, float("nan"), "soon"])
def test_a_wait_is_of_0_to_45_seconds(project, seconds):
    arguments = {"id": "bench-0", "action": "wait", "wait_s": seconds}

    with pytest.raises(ToolError, match="bad arguments for job: wait_s: input should be"):
        anyio.run(build_server().call_tool, "job", arguments)


def test_an_action_without_a_handle_is_refused(project):
    async def work(client):
        return await client.call_tool("job", {"action": "cancel"})

    assert "cancel needs an id; job() lists" in run_client(work).content[0].text


def test_a_cancelled_job_leaves_no_compiler(project, stalled_source):
    async def work(client):
        first = (await client.call_tool("build_kernel", BROKEN)).structured_content
        await wait_for_process(stalled_source)
        job = await get_job(client, id=first["job"]["id"], action="cancel")
        return job, find_processes(stalled_source)

    job, left = run_client(work)

    assert job["job"]["status"] == "cancelled"
    assert left == []


def test_a_cancelled_job_leaves_no_kernel(project, scratch):
    make_broken_kernel(project, "endless")

    async def work(client):
        first = (await client.call_tool("bench_kernel", BROKEN)).structured_content
        while not [p for p in find_processes(scratch) if "candidate" in read_cmdline(p)]:
            await anyio.sleep(0.05)
        job = await get_job(client, id=first["job"]["id"], action="cancel")
        return job, find_processes(scratch)

    job, left = run_client(work)

    assert job["job"]["status"] == "cancelled"
    assert "until then: naive for cpu" in job["job"]["now"]
    assert left == []


def test_cancelling_a_wait_does_not_cancel_the_job(project, stalled_source):
    async def work(client):
        first = (await client.call_tool("build_kernel", BROKEN)).structured_content
        handle = first["job"]["id"]
        await wait_for_process(stalled_source)
        with anyio.move_on_after(0.3):
            await get_job(client, id=handle, action="wait")
        after = await get_job(client, id=handle)
        release_compiler(stalled_source)
        return after, await get_job(client, id=handle, action="wait")

    after, done = run_client(work)

    assert after["job"]["status"] == "running"
    assert done["result"]["build"]["status"] == "built"


@pytest.mark.slow
def test_a_client_that_timed_out_finds_the_result_by_its_handle(project, stalled_source):
    served = StdioServerParameters(
        command=sys.executable, args=["-c", SERVER_PROGRAM], cwd=project, env=dict(os.environ)
    )

    async def run():
        async with Client(served) as client:
            first = (await client.call_tool("build_kernel", BROKEN)).structured_content
            handle = first["job"]["id"]
            await wait_for_process(stalled_source)
            wait = {"id": handle, "action": "wait"}
            with pytest.raises(MCPError, match=r"(?i)timed out"):
                await client.call_tool("job", wait, read_timeout_seconds=0.3)
            release_compiler(stalled_source)
            return await get_job(client, **wait)

    done = anyio.run(run)

    assert done["job"]["status"] == "done"
    assert done["result"]["build"]["status"] == "built"


def test_the_end_of_the_server_is_the_end_of_its_jobs(project, stalled_source):
    served = StdioServerParameters(
        command=sys.executable, args=["-c", SERVER_PROGRAM], cwd=project, env=dict(os.environ)
    )

    async def run():
        async with Client(served) as client:
            first = (await client.call_tool("build_kernel", BROKEN)).structured_content
            await wait_for_process(stalled_source)
            return first

    first = anyio.run(run)

    assert first["job"]["status"] == "running"
    assert wait_for_count(stalled_source, 0)


def test_an_error_of_the_engine_itself_is_on_stderr(project):
    bug = (
        "import kernelkb.actions.kernels.measure_variant as it\n"
        "it.build_variant = lambda *_, **__: {}['a bug of ours']\n"
    )
    ask = [
        '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": '
        '"2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}',
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "build_kernel", '
        '"arguments": {"kernel": "row_softmax"}}}',
    ]
    server = subprocess.Popen(
        [sys.executable, "-c", bug + SERVER_PROGRAM],
        cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, bufsize=1,
    )  # fmt: skip
    server.stdin.write("\n".join(ask) + "\n")
    answers = [server.stdout.readline() for _ in range(2)]
    _, said = server.communicate(timeout=300)

    assert "Error executing tool build_kernel" in answers[1]
    assert "a bug of ours" not in answers[1]
    assert "KeyError" in said
    assert "a bug of ours" in said


def test_an_error_of_the_engine_in_a_job_is_in_the_log(project, monkeypatch, caplog):
    monkeypatch.setattr(
        "kernelkb.actions.kernels.measure_variant.build_variant",
        lambda *_, **__: {}["a bug of ours"],
    )

    async def work(client):
        first = (await client.call_tool("build_kernel", BROKEN)).structured_content
        return await get_job(client, id=first["job"]["id"], action="wait")

    job = run_client(work)

    assert job["job"]["error"] == "Error executing tool build_kernel"
    assert "a bug of ours" in caplog.text


async def return_empty_result(job):
    return CallToolResult(content=[TextContent(text="")])


async def run_forever(job):
    await anyio.sleep_forever()


def test_a_job_is_forgotten_when_its_time_is_over():
    async def run():
        jobs = JobRegistry(retention_s=0)
        job = jobs.start(make_tool_call("bench_kernel"), return_empty_result)
        jobs.detach(job)
        await job.wait_until_done()
        jobs.find(job.id)

    with pytest.raises(ToolError, match="running now: none"):
        anyio.run(run)


def test_only_so_many_ended_jobs_are_kept_and_the_oldest_goes_first():
    async def run():
        jobs = JobRegistry(max_jobs=2)
        handles = []
        for _ in range(4):
            job = jobs.start(make_tool_call("bench_kernel"), return_empty_result)
            jobs.detach(job)
            await job.wait_until_done()
            handles.append(job.id)
        return handles, [job.id for job in jobs]

    handles, kept = anyio.run(run)

    assert kept == [handles[3], handles[2]]


def test_work_is_not_dropped_to_make_room():
    async def run():
        jobs = JobRegistry(max_jobs=1)
        for _ in range(3):
            jobs.detach(jobs.start(make_tool_call("bench_kernel"), run_forever))
        return len(list(jobs))

    assert anyio.run(run) == 3


def test_only_so_much_is_taken_on_at_once():
    async def run():
        jobs = JobRegistry(max_running=1)
        jobs.start(make_tool_call("bench_kernel"), run_forever)
        jobs.start(make_tool_call("bench_kernel"), run_forever)

    with pytest.raises(ToolError, match="the most this server allows"):
        anyio.run(run)
