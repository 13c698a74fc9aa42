"""What a server is launched with: options, toolsets, read-only."""

import os
import subprocess
import sys

import anyio
import pytest
from broken_kernels import make_broken_kernel
from http_server import SERVER_COMMAND, serve_http
from mcp import Client, StdioServerParameters
from tool_calls import run_client

from kernelkb import __version__
from kernelkb.actions.sessions.sessions import load_session, start_session
from kernelkb_mcp.server_config import TOOLSETS, ServerConfig
from kernelkb_mcp.serving.http import list_accepted_hosts
from kernelkb_mcp.serving.options import HttpConfig, parse_command_line


def run_server(project, *words):
    return subprocess.run(
        [*SERVER_COMMAND, *words],
        cwd=project,
        capture_output=True,
        text=True,
        input="",
        timeout=300,
    )


def run_with_options(words, work):
    """Return the result of ``work`` with a client of a server in this process."""
    return run_client(parse_command_line(words)[0], work)


def run_stdio_client(project, words, work):
    async def talk():
        parameters = StdioServerParameters(
            command=sys.executable,
            args=[*SERVER_COMMAND[1:], *words],
            cwd=project,
            env=dict(os.environ),
        )
        async with Client(parameters) as client:
            return await work(client)

    return anyio.run(talk)


async def list_tool_names(client):
    return [tool.name for tool in (await client.list_tools()).tools]


def test_without_a_word_it_serves_everything_over_stdio():
    assert parse_command_line([]) == (ServerConfig(), None)


@pytest.mark.parametrize(
    ("word", "said"),
    [("--help", "kb-mcp --read-only"), ("--version", f"kb-mcp {__version__}\n")],
)
def test_help_shows_examples_and_the_version_is_ours(capsys, word, said):
    with pytest.raises(SystemExit) as ended:
        parse_command_line([word])

    assert ended.value.code == 0
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--toolsets", "knwledge"], "unknown toolset 'knwledge' (did you mean 'knowledge'?)"),
        (["--toolsets", ""], "unknown toolset ''"),
        (["--toolsets", "knowledge,,sessions"], "unknown toolset ''"),
        (["--read-onyl"], "unrecognized arguments: --read-onyl"),
        (["--read"], "unrecognized arguments: --read"),
        (["--workspace", "nowhere"], "nowhere is not a folder"),
        (["--workspace", "/"], "--workspace / would exclude nothing"),
        (["--port", "8000"], "--port needs --http"),
        (["--port", "0"], "--port needs --http"),
        (["--allow-remote"], "--allow-remote needs --http"),
        (["--http", "--port", "65536"], "'65536' is no port"),
        (["--http", "--port", "-1"], "'-1' is no port"),
        (["--http", "--host", "0.0.0.0"], "add --allow-remote"),
        (["--http", "--host", "::"], "add --allow-remote"),
        (["--http", "--host", "gpu-box"], "add --allow-remote"),
        (["--http", "--host", "127.0.0.1.evil.example"], "add --allow-remote"),
    ],
)
def test_a_bad_option_is_reported_and_exits_with_2(capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        parse_command_line(words)

    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_the_process_itself_ends_with_2(project):
    done = run_server(project, "--toolsets", "mesure")

    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'measure'?" in done.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_needs_no_allow_remote(host):
    assert parse_command_line(["--http", "--host", host])[1].host == host


def test_a_rejected_address_explains_allow_remote(capsys):
    with pytest.raises(SystemExit):
        parse_command_line(["--http", "--host", "0.0.0.0"])

    assert "can compile and run code here with your rights" in capsys.readouterr().err


def test_http_listens_on_the_given_address():
    words = ["--http", "--port", "9", "--host", "0.0.0.0", "--allow-remote"]
    _, listen = parse_command_line(
        [*words, "--allowed-host", "gpu-box", "--allowed-origin", "http://a:1"]
    )

    assert listen == HttpConfig("0.0.0.0", 9, ("gpu-box",), ("http://a:1",))


@pytest.mark.parametrize("sets", [["knowledge"], ["sessions"], ["measure", "knowledge"]])
def test_a_toolset_offers_its_tools_and_no_other(project, sets):
    offered = run_with_options(["--toolsets", ",".join(sets)], list_tool_names)
    known = [tool for name, tools in TOOLSETS.items() if name in sets for tool in tools]

    assert offered
    assert offered == [tool for tool in known if tool in offered]


def test_read_only_beats_every_toolset(project):
    offered = run_with_options(["--toolsets", "measure,sessions", "--read-only"], list_tool_names)

    assert "recommend_fix" in offered
    assert set(offered) <= set(TOOLSETS["knowledge"])


def test_a_tool_that_is_not_offered_cannot_be_called(project):
    make_broken_kernel(project, "right")
    result = run_stdio_client(
        project, ["--read-only"], lambda c: c.call_tool("build_kernel", {"kernel": "broken"})
    )

    assert result.is_error
    assert not (project / ".kb").exists()


def test_read_only_writes_nothing_into_the_open_session(project):
    def ask(client):
        return client.call_tool("recommend_fix", {"speedup": 0.3})

    start_session("2026-01-01-x", "see", None, None)
    run_with_options([], ask)
    assert len(load_session("2026-01-01-x").entries) == 1

    before = read_tree(project)
    run_stdio_client(project, ["--read-only"], ask)
    assert read_tree(project) == before


def read_tree(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_server_that_is_started_elsewhere_goes_to_its_workspace(project, tmp_path):
    make_broken_kernel(project, "does-not-compile")
    other = tmp_path / "elsewhere"
    other.mkdir()
    result = run_stdio_client(
        other,
        ["--workspace", str(project)],
        lambda c: c.call_tool("build_kernel", {"kernel": "broken", "target": "cpu"}),
    )

    assert result.structured_content["build"]["status"] == "failed"
    assert list(other.iterdir()) == []


def test_read_only_overrides_toolsets_over_http(project):
    with serve_http(project, "--read-only", "--toolsets", "sessions") as server:
        offered = list_http_tool_names(server)

    assert "recommend_fix" in offered
    assert set(offered) <= set(TOOLSETS["knowledge"])


def list_http_tool_names(server):
    import httpx2
    from http_server import TOKEN
    from mcp.client.streamable_http import streamable_http_client

    async def talk():
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=headers, timeout=120) as web:
            transport = streamable_http_client(server.url, http_client=web)
            async with Client(transport) as client:
                return await list_tool_names(client)

    return anyio.run(talk)


@pytest.mark.parametrize(
    ("listen", "port", "hosts"),
    [
        (HttpConfig(), 8765, ["127.0.0.1:8765", "localhost:8765"]),
        (HttpConfig("::1"), 9, ["127.0.0.1:9", "localhost:9", "[::1]:9"]),
        (HttpConfig("10.1.2.3"), 9, ["10.1.2.3:9"]),
        (HttpConfig("10.1.2.3"), 80, ["10.1.2.3:80", "10.1.2.3"]),
        (
            HttpConfig(allowed_hosts=("a", "b:1")),
            9,
            ["127.0.0.1:9", "localhost:9", "a", "a:9", "b:1"],
        ),
    ],
)
def test_every_host_is_listed_with_its_port(listen, port, hosts):
    assert list_accepted_hosts(listen, port) == hosts
