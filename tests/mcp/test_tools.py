"""The tools through a real client, in process."""

import json
import re
from pathlib import Path

import anyio
import pytest
from broken_kernels import make_broken_kernel
from mcp import Client
from mcp.server.mcpserver.exceptions import ToolError
from processes import find_processes, read_cmdline, wait_for_count

from kernelkb.actions.sessions.sessions import load_session, start_session
from kernelkb_mcp.server import build_instructions, build_server
from kernelkb_mcp.server_config import TOOLSETS, ServerConfig

SNAPSHOT = Path(__file__).parents[1] / "data" / "mcp_tools.json"
REGENERATE = (
    "tool schemas changed; if that is meant, write the snapshot again:\n"
    '.venv/bin/python -c "import anyio, json; from mcp import Client; '
    "from kernelkb_mcp.server import build_server\n"
    "async def main():\n"
    "    async with Client(build_server()) as client:\n"
    "        tools = (await client.list_tools()).tools\n"
    "    rows = [t.model_dump(by_alias=True, exclude_none=True) for t in tools]\n"
    "    open('tests/data/mcp_tools.json', 'w').write(json.dumps(rows, indent=1) + chr(10))\n"
    'anyio.run(main)"'
)


def list_tools():
    async def run():
        async with Client(build_server()) as client:
            return (await client.list_tools()).tools

    return anyio.run(run)


def call_tool(name, **arguments):
    async def run():
        async with Client(build_server(ServerConfig(inline_s=600))) as client:
            return await client.call_tool(name, arguments)

    return anyio.run(run)


TOOL_NAMES = [
    "search_knowledge",
    "read_entry",
    "recommend_fix",
    "calculate_limits",
    "build_kernel",
    "bench_kernel",
    "profile_kernel",
    "tune_kernel",
    "job",
    "session",
]
READ_ONLY_TOOLS = ["search_knowledge", "read_entry", "calculate_limits"]


def test_the_tools_are_these_in_this_order():
    assert [tool.name for tool in list_tools()] == TOOL_NAMES


@pytest.mark.parametrize("at", range(len(TOOL_NAMES)), ids=TOOL_NAMES)
def test_a_tool_says_all_that_a_client_asks(at):
    tool = list_tools()[at]
    hints = tool.annotations.model_dump(exclude_none=True)

    assert tool.title
    assert len(hints) == 4
    assert len(tool.description) <= 1200
    assert tool.input_schema["additionalProperties"] is False
    assert tool.output_schema


def test_only_read_only_tools_are_marked_read_only():
    assert [t.name for t in list_tools() if t.annotations.read_only_hint] == READ_ONLY_TOOLS


def test_schemas_are_those_of_the_snapshot():
    rows = [tool.model_dump(by_alias=True, exclude_none=True) for tool in list_tools()]

    assert rows == json.loads(SNAPSHOT.read_text()), REGENERATE


def test_instructions_fit_what_clients_show():
    assert len(build_instructions(ServerConfig().tool_names).encode()) <= 2000


@pytest.mark.parametrize(
    "launch", [ServerConfig(), ServerConfig(read_only=True), ServerConfig(("sessions",))]
)
def test_instructions_name_the_tools_on_offer_and_no_others(launch):
    text = build_instructions(launch.tool_names)
    known = {tool for tools in TOOLSETS.values() for tool in tools}
    called = set(re.findall(r"[`\s](\w+)[(`]", text)) & known

    assert called == set(launch.tool_names)


def test_instructions_begin_with_the_workflow():
    lines = build_instructions(ServerConfig().tool_names).splitlines()

    assert lines[1] == "Workflow:"
    assert lines[2].startswith("1. `session(")


def test_the_text_is_the_structure_and_short():
    result = call_tool("recommend_fix", speedup=0.3, bandwidth=0.4, occupancy=0.4, kernel_us=100)

    assert json.loads(result.content[0].text) == result.structured_content
    assert len(result.content[0].text) <= 8000


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("recommend_fix", {"occupancy": 40}, "write 0.40 or 40%"),
        ("recommend_fix", {"speedup": "nan"}, "leave it out when it was not measured"),
        ("recommend_fix", {"metrics": {"occupency": 0.4}}, "did you mean 'occupancy'?"),
        ("recommend_fix", {"gpu": "H1000"}, "unknown GPU"),
        ("recommend_fix", {"sped": 0.4}, "sped: extra inputs are not permitted. Accepted: speedup"),
        (
            "recommend_fix",
            {"speedup": [1]},
            "speedup: input should be a valid number or",
        ),
        ("recommend_fix", {"speedup": True}, "speedup"),
        ("recommend_fix", {"target": "gpu"}, "target: input should be 'cuda' or 'cpu'"),
        ("build_kernel", {"kernel": "row_softmx"}, "did you mean 'row_softmax'?"),
        ("build_kernel", {"kernel": "row_softmax", "variant": ""}, "variant of row_softmax ''"),
        (
            "profile_kernel",
            {"kernel": "row_softmax", "target": "cpu", "workload": "tinny"},
            "did you mean 'tiny'?",
        ),
        ("bench_kernel", {"kernel": "row_softmax", "variant": "nave"}, "did you mean 'naive'?"),
        ("build_kernel", {}, "kernel: field required"),
        ("bench_kernel", {}, "name a kernel, or give task and candidate"),
        ("session", {"action": "log", "goal": "x", "id": "../x"}, "session field session"),
    ],
)
def test_misuse_is_one_line_with_the_cure(project, name, arguments, text):
    result = call_tool(name, **arguments)

    assert result.is_error
    assert text in result.content[0].text
    assert "\n" not in result.content[0].text


def test_an_infinite_cost_is_refused(project):
    server = build_server()  # a client of ours would send null, others send 1e999

    with pytest.raises(ToolError, match="cost_usd"):
        anyio.run(
            server.call_tool, "session", {"action": "log", "goal": "x", "cost_usd": float("inf")}
        )


def test_a_kernel_yaml_that_no_parser_takes_is_named(project):
    (make_broken_kernel(project, "right") / "kernel.yaml").write_text("id: broken\0\n")
    result = call_tool("build_kernel", kernel="broken", target="cpu")

    assert "kernel.yaml" in result.content[0].text


def test_a_project_that_cannot_be_written_is_named(project):
    make_broken_kernel(project, "right")
    (project / ".kb").write_text("")
    result = call_tool("build_kernel", kernel="broken", target="cpu")

    assert str(project / ".kb") in result.content[0].text


def test_a_build_result_is_short(project):
    result = call_tool("build_kernel", kernel="row_softmax", target="cpu")

    assert json.loads(result.content[0].text) == result.structured_content
    assert len(result.content[0].text.encode()) <= 8000


@pytest.mark.parametrize(
    ("how", "verdict", "word"),
    [
        pytest.param("zeros", "incorrect", "wrong", marks=pytest.mark.slow),
        ("segfault", "invalid", "SIGSEGV"),
    ],
)
def test_a_broken_kernel_is_a_result_not_an_error(project, how, verdict, word):
    make_broken_kernel(project, how)
    result = call_tool("bench_kernel", kernel="broken", target="cpu")

    assert not result.is_error
    assert result.structured_content["bench"]["verdict"] == verdict
    assert word in result.structured_content["bench"]["detail"]


def test_a_compiler_error_names_the_line(project):
    make_broken_kernel(project, "does-not-compile")
    found = call_tool("build_kernel", kernel="broken", target="cpu").structured_content["build"]

    assert found["error"].startswith("naive.cpp:7:")
    assert found["cure"].startswith("fix naive.cpp and build again; the whole log: ")


def test_a_session_is_logged_in_the_project(project):
    result = call_tool("session", action="log", goal="faster", went_wrong=["guessed"])

    assert Path(result.structured_content["file"]).parent == project / "sessions"


def test_a_cancelled_call_leaves_no_child(project, scratch):
    make_broken_kernel(project, "endless")

    async def run():
        async with Client(build_server()) as client:
            with anyio.move_on_after(60) as scope:
                async with anyio.create_task_group() as group:
                    arguments = {"kernel": "broken", "target": "cpu"}
                    group.start_soon(client.call_tool, "bench_kernel", arguments)
                    while not [
                        p for p in find_processes(scratch) if "candidate" in read_cmdline(p)
                    ]:
                        await anyio.sleep(0.05)
                    group.cancel_scope.cancel()
            assert not scope.cancelled_caught

    anyio.run(run)

    assert wait_for_count(scratch, 0)


def test_a_cancelled_build_leaves_no_compiler(project, stalled_source):
    async def run():
        async with Client(build_server()) as client:
            with anyio.move_on_after(60) as scope:
                async with anyio.create_task_group() as group:
                    arguments = {"kernel": "broken", "target": "cpu"}
                    group.start_soon(client.call_tool, "build_kernel", arguments)
                    while not find_processes(stalled_source):
                        await anyio.sleep(0.05)
                    group.cancel_scope.cancel()
            assert not scope.cancelled_caught

    anyio.run(run)

    assert wait_for_count(stalled_source, 0)


def test_a_report_gives_an_answer_for_each_of_its_kernels():
    path = SNAPSHOT.parent / "ncu/reports/four_launches.ncu-rep"
    answer = call_tool("recommend_fix", profile=str(path), kernel="few").structured_content
    whole = call_tool("recommend_fix", profile=str(path), kernel="few", everything=True)

    (kernel,) = answer["kernels"]
    assert kernel["diagnoses"][0]["bottleneck"] == "small-grid"
    assert not kernel["ncu_rules"]
    assert whole.structured_content["kernels"][0]["ncu_rules"]


def test_every_tool_lands_in_the_open_session(project):
    start_session("mine", "see what is logged")

    call_tool("recommend_fix", speedup=0.3, occupancy=0.4)
    call_tool("build_kernel", kernel="row_softmax", target="cpu")
    call_tool("session", action="log", goal="said by hand")

    logged = [entry.by for entry in load_session("mine").entries]
    assert logged == ["recommend", "build", None]
