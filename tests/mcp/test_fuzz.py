"""5,000 calls that nobody means well with: an answer or one clear line to each, and no harm."""

import json
import os
import queue
import shutil
import subprocess
import threading
from pathlib import Path

import anyio
import hostile_arguments
import pytest
from anyio.from_thread import start_blocking_portal
from broken_kernels import make_broken_kernel
from hostile_arguments import (
    INJECTION,
    SECRET,
    anything,
    arguments_for_tool,
    format_json,
    nest_list,
    texts,
)
from http_server import SERVER_COMMAND
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.server.mcpserver.exceptions import ToolError
from tool_calls import leave_workspace

from kernelkb_mcp.server import build_server
from kernelkb_mcp.server_config import TOOLSETS, ServerConfig, enter_workspace

EXAMPLE_COUNTS = [400, pytest.param(4000, marks=pytest.mark.slow)]
PIPE_EXAMPLE_COUNTS = [100, pytest.param(1000, marks=pytest.mark.slow)]
SNAPSHOT = json.loads((Path(__file__).parents[1] / "data" / "mcp_tools.json").read_text())
SCHEMAS = {tool["name"]: tool["inputSchema"] for tool in SNAPSHOT}
SLOW_TOOLS = [name for name in TOOLSETS["measure"] if name != "job"]
NO_KERNEL = st.one_of(texts, st.sampled_from(["missing", "linked", "yaml", "flags", "Broken"]))
COSTLY = {
    **{name: {"kernel": NO_KERNEL} for name in SLOW_TOOLS},
    "bench_kernel": {"kernel": NO_KERNEL, "task": texts},
}
CALLS = st.one_of(
    *(
        st.tuples(st.just(name), arguments_for_tool(schema, COSTLY.get(name, {})))
        for name, schema in SCHEMAS.items()
    )
)
fuzz_settings = {
    "deadline": None,
    "database": None,
    "phases": [Phase.explicit, Phase.generate],
    "suppress_health_check": list(HealthCheck),
}


def make_project_with_traps(folder):
    """Make a project full of ways out, with secrets beside it."""
    project, outside = folder / "project", folder / "outside"
    (project / "sessions").mkdir(parents=True)
    (outside / "kernel").mkdir(parents=True)
    for name in ("secret.csv", "kernel/kernel.yaml", "session.md"):
        (outside / name).write_text(f'"Kernel Name"\n{SECRET}: {SECRET}\n')
    (project / "link.csv").symlink_to(outside / "secret.csv")
    (project / "folder").symlink_to(outside)
    (project / "loop").symlink_to("loop")
    os.mkfifo(project / "pipe.csv")
    make_broken_kernel(project, "right", "yaml")
    (project / "kernels" / "yaml" / "kernel.yaml").write_text("id: [\x1b[31m\n")
    make_broken_kernel(project, "right", "flags")
    file = project / "kernels" / "flags" / "kernel.yaml"
    file.write_text(file.read_text().replace("flags: []", "flags: [-fplugin=x]"))
    (project / "kernels" / "linked").symlink_to(outside / "kernel")
    (project / "sessions" / "2026-01-01-x.md").symlink_to(outside / "session.md")
    return project, outside


def read_tree(folder, *, apart=()):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink() and path.relative_to(folder).parts[0] not in apart
    }


@pytest.fixture(scope="module")
def trapped_project(tmp_path_factory):
    """A project with traps; what stands beside it, and in it, is the same afterwards."""
    folder = tmp_path_factory.mktemp("fuzz")
    project, outside = make_project_with_traps(folder)
    before = read_tree(outside), read_tree(project, apart=("sessions", ".kb"))
    started = Path.cwd()
    os.environ["FUZZ_SECRET"] = SECRET
    os.chdir(project)
    yield project
    os.chdir(started)
    del os.environ["FUZZ_SECRET"]
    assert (read_tree(outside), read_tree(project, apart=("sessions", ".kb"))) == before


@pytest.fixture(scope="module")
def client(trapped_project):
    """A client of a server in this process, for the bulk."""
    enter_workspace(ServerConfig())
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(build_server())) as opened,
    ):
        yield lambda name, arguments: portal.call(opened.call_tool, name, arguments)
    leave_workspace()


def assert_harmless(text, is_error):
    assert SECRET not in text
    assert "Traceback" not in text
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text), text
    assert "\n" not in text
    if is_error:
        assert 3 < len(text) < 1500
        assert not text.startswith("Error executing tool"), text  # a surprise: nobody foresaw it
    else:
        json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize("example_count", EXAMPLE_COUNTS)
def test_every_call_has_an_answer_or_one_clear_line(client, example_count):
    @settings(max_examples=example_count, **fuzz_settings)
    @given(call=CALLS)
    def check_calls(call):
        name, arguments = call
        result = client(name, arguments)

        assert_harmless(result.content[0].text, result.is_error)

    check_calls()


@pytest.mark.parametrize("name", ["kernel", "profile", "gpu", "\ud800"])
def test_a_lone_surrogate_is_one_clear_error(trapped_project, client, name):
    """No client of ours can send one, and the SDK drops a line that holds one."""
    with pytest.raises(ToolError) as refused:
        anyio.run(build_server().call_tool, "recommend_fix", {name: "\ud800", "occupancy": 40})

    assert_harmless(str(refused.value), is_error=True)
    str(refused.value).encode()


class PipeServer:
    """A server as a child, spoken to line by line."""

    def __init__(self, project):
        self.child = subprocess.Popen(
            SERVER_COMMAND, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        self.number = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        self.ask("initialize", format_json({**hello, "clientInfo": {"name": "t", "version": "0"}}))
        self.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def write(self, line):
        self.child.stdin.write(line.encode() + b"\n")
        self.child.stdin.flush()

    def read(self):
        for line in self.child.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def ask(self, method, params):
        """Return the answer, and what else came before it."""
        self.number += 1
        head = (
            f'{{"jsonrpc": "2.0", "id": {self.number}, "method": {format_json(method)}, "params": '
        )
        self.write(f"{head}{params}}}")
        return self.answer()

    def answer(self):
        while True:
            line = self.lines.get(timeout=120)
            assert line, "the server is gone"
            text = line.decode()
            assert SECRET not in text
            assert "Traceback" not in text
            message = json.loads(text, parse_constant=pytest.fail)
            if message.get("id") == self.number:
                return message

    def is_well(self):
        """Say whether it still answers; it skips what it does not understand."""
        return "result" in self.ask("tools/list", "{}")


@pytest.fixture(scope="module")
def pipe_server(trapped_project):
    opened = PipeServer(trapped_project)
    yield opened
    opened.child.stdin.close()
    assert opened.child.wait(120) == 0
    opened.reader.join()
    opened.child.stdout.close()


@pytest.mark.parametrize("example_count", PIPE_EXAMPLE_COUNTS)
def test_every_call_over_pipes_is_answered(pipe_server, example_count):
    @settings(max_examples=example_count, **fuzz_settings)
    @given(call=CALLS)
    def check_calls(call):
        name, arguments = call
        params = f'{{"name": {format_json(name)}, "arguments": {format_json(arguments)}}}'
        answer = pipe_server.ask("tools/call", params)

        assert ("result" in answer) != ("error" in answer)
        if "result" in answer:
            assert_harmless(answer["result"]["content"][0]["text"], answer["result"]["isError"])

    check_calls()


@settings(max_examples=60, **fuzz_settings)
@given(value=anything, method=texts)
def test_invalid_messages_do_not_end_the_server(pipe_server, value, method):
    pipe_server.write(format_json(value))
    pipe_server.write(
        format_json({"jsonrpc": "2.0", "id": value, "method": method, "params": value})
    )

    assert pipe_server.is_well()


@pytest.mark.parametrize(
    "line",
    ["", "{", "\x00", "]", "NaN", '{"jsonrpc": "2.0"}', '{"jsonrpc": "2.0", "id": {}, "method": 1}',
     "[" * 100_000, '{"a":' * 50_000, '"' + "x" * 3_000_000 + '"', '{"id": "\\ud800"}', "\ufeff{}"],
    ids=range(12),
)  # fmt: skip
def test_lines_that_are_no_messages_do_not_end_it(pipe_server, line):
    pipe_server.write(line)

    assert pipe_server.is_well()


@pytest.mark.parametrize("depth", [100, 900, 5000])
def test_deep_arguments_do_not_end_it(pipe_server, depth):
    inside = "[" * depth + "]" * depth
    params = f'{{"name": "recommend_fix", "arguments": {{"metrics": {inside}}}}}'
    pipe_server.write(f'{{"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {params}}}')

    assert pipe_server.is_well()


def test_deep_arguments_in_process_are_one_line(client):
    result = client("recommend_fix", {"metrics": {"x": nest_list(200)}})

    assert_harmless(result.content[0].text, result.is_error)


@pytest.mark.parametrize("name", ["", "recommend_fix\x1b[0m", "__init__", "x" * 5000])
def test_an_unknown_tool_is_one_error_line(client, name):
    result = client(name, {})

    assert result.is_error
    assert_harmless(result.content[0].text, result.is_error)


@pytest.mark.parametrize(
    "line",
    [f'#error "{INJECTION}"', f"#error \x1b[2J\x1b[31m{INJECTION} " + "x" * 5000,
     f'static_assert(false, "\\x1b[31m {INJECTION}");', f'#pragma message("{INJECTION}")\n#error x',
     f"int {'x' * 3000} = {{}} // {INJECTION}"],
    ids=range(5),
)  # fmt: skip
def test_instructions_in_an_error_arrive_as_a_short_quotation(client, trapped_project, line):
    folder = make_broken_kernel(trapped_project, "right", "hostile")
    source = folder / "naive.cpp"
    source.write_text(f"{line}\n{source.read_text()}")
    result = client("build_kernel", {"kernel": "hostile", "target": "cpu"})
    shutil.rmtree(folder)
    assert_harmless(result.content[0].text, result.is_error)
    found = result.structured_content
    words = json.dumps(found["next"])
    said = found["summary"]

    assert found["build"]["status"] == "failed"
    assert len(found["build"]["error"]) <= 400
    assert INJECTION[:20] not in words
    assert INJECTION not in said or f'"{said.split(chr(34))[1]}"' in said
    assert len(said) < 300


@pytest.mark.slow
def test_nothing_was_made_by_a_name_with_a_command_in_it(client, trapped_project):
    client("recommend_fix", {"profile": "$(touch owned)"})

    assert not (trapped_project / "owned").exists()
    assert hostile_arguments.PATHS
