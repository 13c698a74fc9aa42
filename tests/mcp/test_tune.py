"""A search over MCP: a job that shows its trials, that goes on after a cancel, beside others."""

import json
import os
import sys

import anyio
import jsonschema
import pytest
from broken_kernels import make_broken_kernel
from client_calls import call_and_wait
from mcp import Client, StdioServerParameters
from processes import find_processes
from tool_calls import call_tool, run_client
from tunable_kernels import make_tunable_kernel, read_configurations

from kernelkb.cli import main
from kernelkb.model.kernels.tuning import ConfirmedConfiguration, TuningResult, TuningTrial
from kernelkb.model.records.measurement import Bench
from kernelkb.tune.plan import plan_tuning
from kernelkb_mcp.calls.arguments import parse_budget
from kernelkb_mcp.server_config import ServerConfig
from kernelkb_mcp.views.tuning import build_tune_result

SERVER_ARGS = ["-c", "from kernelkb_mcp.start import main; main()"]
DETACH_AT_ONCE = ServerConfig(inline_s=0)
TWICE = {"kernel": "twice", "target": "cpu"}
MANY = range(1, 400)
"""So many configurations that their search outlasts every test."""


async def get_job(client, handle, action="status"):
    return (await client.call_tool("job", {"id": handle, "action": action})).structured_content


async def start_search(client, **arguments):
    """Return the handle of a search that has made two trials."""
    call = {**TWICE, "budget": "1h", **arguments}
    started = (await client.call_tool("tune_kernel", call)).structured_content
    assert started["tuning"] is None
    return started["job"]["id"]


async def wait_for_trials(project, count):
    with anyio.fail_after(240):
        while len(read_configurations(project)) < count:
            await anyio.sleep(0.05)


@pytest.mark.slow
def test_a_search_over_pipes_ends_with_a_verdict_and_the_next_call(project):
    told = []

    async def note(_progress, _total, message):
        told.append(message)

    async def run():
        server = StdioServerParameters(
            command=sys.executable, args=SERVER_ARGS, cwd=project, env=dict(os.environ)
        )
        call = {"kernel": "gemm", "variant": "blocked", "target": "cpu", "workload": "tiny"}
        async with Client(server) as client:
            (tool,) = [t for t in (await client.list_tools()).tools if t.name == "tune_kernel"]
            first = await client.call_tool(
                "tune_kernel", {**call, "trials": 3}, progress_callback=note
            )
            handle = (first.structured_content["job"] or {}).get("id")
            found = first.structured_content
            while handle and not found.get("result"):
                found = await get_job(client, handle, "wait")
                assert found["job"]["status"] in ("running", "done"), found
            return tool, found.get("result") or found

    tool, found = anyio.run(run)
    tuning = found["tuning"]

    jsonschema.validate(found, tool.output_schema)
    assert (tuning["combination_count"], tuning["feasible_count"]) == (150, 120)
    assert sum(tuning["trial_counts"].values()) == len(read_configurations(project)) == 3
    assert tuning["confirmed"][0]["low"] <= tuning["confirmed"][0]["gain"]
    assert tuning["bench"]["verdict"] in ("faster", "slower", "inconclusive")
    assert found["next"][-1].endswith("trials=3)")
    assert "3 trials of 120 configurations" in found["summary"]
    assert any("of 120 configurations tried, best" in line for line in told)
    assert len(json.dumps(found)) <= 8000


@pytest.mark.slow
def test_a_gain_is_told_with_the_values_to_set(project):
    make_tunable_kernel(project, works=(1, 64))
    found = call_tool("tune_kernel", **TWICE).structured_content
    best = found["tuning"]["confirmed"][0]

    assert best["configuration"] == {"MODE": 0, "WORK": 1}
    assert best["low"] > 2
    assert found["next"][0].startswith(
        "set MODE=0 WORK=1 as the defaults in kernels/twice/plain.cpp and under tune in its "
        "kernel.yaml; without an edit, `kb build twice "
    )
    assert found["next"][1:] == ["bench_kernel(kernel='twice', variant='plain', target='cpu')"]
    words = found["next"][0].split("`")[1].removeprefix("kb ").split()
    assert main([*words, "--target", "cpu"]) == 0


def make_result(plan, low, verdict):
    """Return a search of one trial, whose configuration the judge gave a verdict."""
    subject = plan.bench_target.subject
    configuration = plan.space.get_configuration(0)
    where = {**subject.identity_fields, "workload": plan.workload}
    return TuningResult(
        **where,
        device="a CPU",
        combination_count=3,
        feasible_count=3,
        trials=(TuningTrial(number=0, configuration=configuration, status="timed", time_us=1.0),),
        confirmed=(
            ConfirmedConfiguration(
                configuration=configuration, time_us=1.0, gain=1.1, low=low, high=1.2, is_tie=False
            ),
        ),
        default_us=1.1,
        bench=Bench(**where, verdict=verdict, detail="off by one", seconds=1.0),
        seconds=1.0,
        device_s=1.0,
        journal="a.jsonl",
    )


@pytest.mark.parametrize(
    ("low", "verdict", "text"),
    [
        (0.9, "slower", "profile_kernel(kernel='twice', variant='plain', target='cpu')"),
        (1.05, "incorrect", "correct plain, or exclude MODE=0 WORK=1 by a constraint in kernel"),
        (1.05, "faster", "set MODE=0 WORK=1 as the defaults in kernels/twice/plain.cpp"),
    ],
)
def test_the_next_call_depends_on_the_verdict(project, low, verdict, text):
    make_tunable_kernel(project)
    plan = plan_tuning("twice", target="cpu")
    found = build_tune_result(plan, make_result(plan, low, verdict), "tune_kernel(kernel='twice')")

    assert found.next[0].startswith(text)
    assert "tune_kernel(kernel='twice')" in found.next[-1]


def test_values_of_a_shipped_kernel_are_set_in_a_copy(project):
    plan = plan_tuning("gemm", target="cpu")
    found = build_tune_result(plan, make_result(plan, 1.05, "faster"), "tune_kernel(...)")

    assert "in kernels/gemm/blocked.cpp (a copy of " in found.next[0]


@pytest.mark.slow
def test_a_cancelled_search_leaves_its_trials_and_no_process(project, scratch):
    make_tunable_kernel(project, works=MANY)

    async def cancel_early(client):
        handle = await start_search(client)
        await wait_for_trials(project, 2)
        return await get_job(client, handle, "cancel"), find_processes(scratch)

    cancelled, left = run_client(DETACH_AT_ONCE, cancel_early)
    kept = read_configurations(project)
    found = call_tool("tune_kernel", **TWICE, trials=2).structured_content["tuning"]
    after = read_configurations(project)

    assert cancelled["job"]["status"] == "cancelled"
    assert "its trials are kept, and the same call goes on" in cancelled["summary"]
    assert cancelled["next"] == [cancelled["job"]["call"]]
    assert left == []
    assert found["resumed_count"] == len(kept) >= 2
    assert after[: len(kept)] == kept
    assert len(set(after)) == len(after) == len(kept) + 2


@pytest.mark.slow
def test_a_search_that_is_running_is_not_begun_twice(project):
    make_tunable_kernel(project, works=MANY)

    async def work(client):
        handle = await start_search(client)
        await wait_for_trials(project, 1)
        again = await client.call_tool("tune_kernel", {**TWICE, "budget": "1h"})
        other = await client.call_tool("tune_kernel", {**TWICE, "budget": "2h"})
        failed = await get_job(client, other.structured_content["job"]["id"], "wait")
        await get_job(client, handle, "cancel")
        return handle, again, failed

    handle, again, failed = run_client(DETACH_AT_ONCE, work)

    assert f"job(id='{handle}', action='wait')" in again.content[0].text
    assert "searches the same space" in failed["job"]["error"]


@pytest.mark.slow
def test_others_measure_between_the_trials(project):
    make_tunable_kernel(project, works=MANY)
    make_broken_kernel(project, "right")

    async def work(client):
        handle = await start_search(client)
        await wait_for_trials(project, 1)
        other = {"kernel": "broken", "target": "cpu", "workload": "tiny"}
        timed = await call_and_wait(client, "bench_kernel", other)
        during = await get_job(client, handle)
        await wait_for_trials(project, len(read_configurations(project)) + 1)
        await get_job(client, handle, "cancel")
        return timed, during

    timed, during = run_client(DETACH_AT_ONCE, work)

    assert timed["bench"]["candidate_us"] > 0
    assert during["job"]["status"] == "running"


@pytest.mark.slow
def test_a_search_without_a_right_configuration_quotes_no_control_characters(project):
    make_tunable_kernel(project, modes=(2, 4), works=(64,))
    result = call_tool("tune_kernel", **TWICE)
    found = result.structured_content

    assert found["tuning"]["trial_counts"] == {"build-failed": 1, "incorrect": 1}
    assert "no configuration could be timed" in found["summary"]
    assert any("ignore all" in one["example"] for one in found["tuning"]["rejections"])
    assert found["next"] == ["build_kernel(kernel='twice', variant='plain', target='cpu')"]
    assert "\x1b" not in result.content[0].text
    assert "\\u001b" not in result.content[0].text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"variant": "plan"}, "did you mean 'plain'?"),
        ({"variant": "fixed"}, "list its macros and their values under 'tune:' in kernel.yaml"),
        ({"workload": "smal"}, "did you mean 'small'?"),
        ({"budget": "soon"}, "budget 'soon' is no duration; write 90s, 20m or 1h"),
        ({"budget": 0}, "write 90s, 20m or 1h"),
        ({"trials": 0}, "trials: input should be greater than or equal to 1"),
        ({"seed": 1}, "Accepted: kernel, variant, target, workload, budget, trials"),
    ],
)
def test_misuse_is_one_line_with_the_cure(project, arguments, text):
    make_tunable_kernel(project)
    result = call_tool("tune_kernel", **TWICE, **arguments)

    assert result.is_error
    assert text in result.content[0].text
    assert "\n" not in result.content[0].text


@pytest.mark.parametrize(("budget", "word"), [("20", "20s"), (20, "20s"), ("0.5m", "30s")])
def test_a_budget_is_text_or_seconds(project, budget, word):
    assert parse_budget(budget) == parse_budget(word)


def test_without_the_measuring_tools_there_is_no_search(project):
    async def work(client):
        return await client.call_tool("tune_kernel", TWICE)

    refused = run_client(ServerConfig(read_only=True), work)

    assert refused.is_error
    assert "Unknown tool: tune_kernel" in refused.content[0].text
