"""Other people's clients against the product: the Inspector, and the SDKs of two languages."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from install_suite import NODE_MODULES, SUITE_FOLDER, build_environment
from mcp import Client, StdioServerParameters
from official_suite import ResultRow
from server_processes import SERVER_COMMAND, build_server_environment, serve_with_token

HERE = Path(__file__).parent
GOOD_ARGUMENTS = {"speedup": 0.3, "occupancy": 0.4}
BAD_ARGUMENTS = {"metrics": {"nope": 1}}
TOOL_ERROR_STATUS = 5
"""What the Inspector exits with when a tool says that it failed."""


def run_clients(node: Path, project: Path) -> Iterator[ResultRow]:
    """Let every client do its round; yield a row for each."""
    with ThreadPoolExecutor(3) as pool, serve_with_token(project) as (url, token):
        work = [
            *(
                (f"Inspector, {era}", pool.submit(run_inspector, node, project, era))
                for era in ("legacy", "auto", "modern")
            ),
            *(
                (
                    f"Python SDK, {mode}, {name}",
                    pool.submit(run_python_client, project, mode, where),
                )
                for mode in ("legacy", "2026-07-28")
                for name, where in (("stdio", None), ("HTTP", (url, token)))
            ),
            *(
                (f"TypeScript SDK {sdk}, {era}, {name}", pool.submit(run))
                for sdk, era in (("v1", "legacy"), ("v2", "legacy"), ("v2", "modern"))
                for name, where in (("stdio", None), ("HTTP", (url, token)))
                for run in [partial(run_typescript_client, node, project, sdk, era, where)]
            ),
        ]
        for what, run in work:
            try:
                failures, count = run.result()
            except Exception as error:  # whatever it was, it is a line of the table
                failures, count = [describe_cause(error)], 1
            yield ResultRow(what, count - len(failures), 0, tuple(failures))


def check_client_view(client_view: dict[str, Any]) -> tuple[list[str], int]:
    """Say what is wrong with what a client saw, and how much was looked at."""
    good, bad = client_view["good"], client_view["bad"]
    claims = {
        "the tools are listed": "recommend_fix" in client_view["tools"],
        "a good call is no error": not good["error"],
        "its answer is structured": bool((good["structured"] or {}).get("kernels")),
        "a bad call is an error": bad["error"],
        "its text names what went wrong": "nope" in bad["text"],
        "an error has no structure": bad["structured"] is None,
        "a listed resource can be read": bool(client_view["resource"])
        == bool(client_view["resources"]),
        "a listed prompt can be had": bool(client_view["prompt"]) == bool(client_view["prompts"]),
    }
    return [
        f"not so: {claim}; {client_view}"[:600] for claim, holds in claims.items() if not holds
    ], 8


def describe_cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:600]


def run_typescript_client(
    node: Path, project: Path, sdk: str, era: str, url_and_token: tuple[str, str] | None
) -> tuple[list[str], int]:
    asked: dict[str, object] = {"sdk": sdk, "era": era, "cwd": str(project)}
    if url_and_token:
        asked |= {"url": url_and_token[0], "token": url_and_token[1]}
    else:
        asked |= {"command": SERVER_COMMAND[0], "args": SERVER_COMMAND[1:]}
    done = subprocess.run(
        [str(node), str(HERE / "clients.mjs"), str(SUITE_FOLDER), json.dumps(asked)],
        env=build_server_environment(project),
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        return [" ".join(done.stderr.split())[:600]], 1
    return check_client_view(json.loads(done.stdout))


def run_python_client(
    project: Path, mode: str, url_and_token: tuple[str, str] | None
) -> tuple[list[str], int]:
    return check_client_view(anyio.run(connect_python_client, project, mode, url_and_token))


async def connect_python_client(
    project: Path, mode: str, url_and_token: tuple[str, str] | None
) -> dict[str, Any]:
    if url_and_token is None:
        server: Any = StdioServerParameters(
            command=SERVER_COMMAND[0],
            args=SERVER_COMMAND[1:],
            cwd=project,
            env=build_server_environment(project),
        )
        return await collect_client_view(server, mode)
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    url, token = url_and_token
    said = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=said, timeout=300) as web:
        return await collect_client_view(streamable_http_client(url, http_client=web), mode)


async def collect_client_view(server: Any, mode: str) -> dict[str, Any]:
    async with Client(server, mode=mode) as client:
        tools = (await client.list_tools()).tools
        good = await client.call_tool("recommend_fix", GOOD_ARGUMENTS)
        bad = await client.call_tool("recommend_fix", BAD_ARGUMENTS)
        resources = (await client.list_resources()).resources
        prompts = (await client.list_prompts()).prompts
        read = await client.read_resource(str(resources[0].uri)) if resources else None
        plain = [one for one in prompts if not any(a.required for a in one.arguments or ())]
        got = await client.get_prompt(plain[0].name) if plain else None
    return {
        "tools": [tool.name for tool in tools],
        "good": {"error": good.is_error, "structured": good.structured_content},
        "bad": {
            "error": bad.is_error,
            "text": bad.content[0].text,
            "structured": bad.structured_content,
        },
        "resource": len(read.contents[0].text) if read else None,
        "prompt": len(got.messages) if got else None,
        "resources": len(resources),
        "prompts": len(plain),
    }


def run_inspector(node: Path, project: Path, era: str) -> tuple[list[str], int]:
    """Call every method as a person at a shell would."""
    server = {
        "command": SERVER_COMMAND[0],
        "args": SERVER_COMMAND[1:],
        "protocolEra": era,
        "cwd": str(project),
    }
    config = project / f"inspector-{era}.json"
    config.write_text(json.dumps({"mcpServers": {"kb": server}}), encoding="utf-8")

    def run_inspector_command(*words: str) -> subprocess.CompletedProcess[str]:
        main = [str(node), str(NODE_MODULES / ".bin" / "mcp-inspector"), "--cli"]
        return subprocess.run(
            [*main, "--config", str(config), "--server", "kb", "--format", "json", *words],
            env=build_server_environment(project)
            | build_environment(node)
            | {"MCP_INSPECTOR_SECRET_STORE": "memory"},
            capture_output=True,
            text=True,
            timeout=300,
        )

    call = ("--method", "tools/call", "--tool-name", "recommend_fix")
    wanted = [
        ("tools/list --strict", ("--method", "tools/list", "--strict"), 0, "recommend_fix"),
        ("tools/call", (*call, "--tool-arg", "speedup=0.3", "occupancy=0.4"), 0, "kernels"),
        (
            "tools/call, failing",
            (*call, "--tool-arg", 'metrics={"nope":1}'),
            TOOL_ERROR_STATUS,
            "nope",
        ),
    ]
    failures = []
    for method, key in (("resources", "uri"), ("prompts", "name")):
        listed = run_inspector_command("--method", f"{method}/list")
        found = json.loads(listed.stdout)["result"][method] if listed.returncode == 0 else []
        plain = [
            one for one in found if not any(a.get("required") for a in one.get("arguments", ()))
        ]
        if listed.returncode:
            failures.append(f"{method}/list: exit {listed.returncode}: {listed.stderr[-300:]}")
        if plain:
            flag = "--uri" if key == "uri" else "--prompt-name"
            verb = "resources/read" if key == "uri" else "prompts/get"
            wanted.append((verb, ("--method", verb, flag, plain[0][key]), 0, ""))
    for what, words, status, text in wanted:
        done = run_inspector_command(*words)
        if done.returncode != status or text not in done.stdout + done.stderr:
            said = " ".join((done.stderr or done.stdout).split())[-300:]
            failures.append(f"{what}: exit {done.returncode}: {said}")
    return failures, len(wanted) + 2
