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
from installing import MODULES, SUITE, environment
from mcp import Client, StdioServerParameters
from official import Row
from started import STDIO, surroundings, with_token

HERE = Path(__file__).parent
GOOD = {"speedup": 0.3, "occupancy": 0.4}
BAD = {"metrics": {"nope": 1}}
REFUSED = 5
"""What the Inspector exits with when a tool says that it failed."""


def rows(node: Path, project: Path) -> Iterator[Row]:
    """Let every client do its round; yield a row for each."""
    with ThreadPoolExecutor(3) as pool, with_token(project) as (url, token):
        work = [
            *(
                (f"Inspector, {era}", pool.submit(_inspected, node, project, era))
                for era in ("legacy", "auto", "modern")
            ),
            *(
                (f"Python SDK, {mode}, {name}", pool.submit(_python, project, mode, where))
                for mode in ("legacy", "2026-07-28")
                for name, where in (("stdio", None), ("HTTP", (url, token)))
            ),
            *(
                (f"TypeScript SDK {sdk}, {era}, {name}", pool.submit(run))
                for sdk, era in (("v1", "legacy"), ("v2", "legacy"), ("v2", "modern"))
                for name, where in (("stdio", None), ("HTTP", (url, token)))
                for run in [partial(_typescript, node, project, sdk, era, where)]
            ),
        ]
        for what, run in work:
            try:
                failures, count = run.result()
            except Exception as error:  # whatever it was, it is a line of the table
                failures, count = [f"{type(error).__name__}: {error}"[:600]], 0
            yield Row(what, count - len(failures), 0, tuple(failures))


def weighed(seen: dict[str, Any]) -> tuple[list[str], int]:
    """Say what is wrong with what a client saw, and how much was looked at."""
    good, bad = seen["good"], seen["bad"]
    claims = {
        "the tools are listed": "recommend_fix" in seen["tools"],
        "a good call is no error": not good["error"],
        "its answer is structured": bool((good["structured"] or {}).get("kernels")),
        "a bad call is an error": bad["error"],
        "its text names what went wrong": "nope" in bad["text"],
        "an error has no structure": bad["structured"] is None,
        "a listed resource can be read": bool(seen["resource"]) == bool(seen["resources"]),
        "a listed prompt can be had": bool(seen["prompt"]) == bool(seen["prompts"]),
    }
    return [f"not so: {claim}; {seen}"[:600] for claim, holds in claims.items() if not holds], 8


def _typescript(
    node: Path, project: Path, sdk: str, era: str, where: tuple[str, str] | None
) -> tuple[list[str], int]:
    asked: dict[str, object] = {"sdk": sdk, "era": era, "cwd": str(project)}
    if where:
        asked |= {"url": where[0], "token": where[1]}
    else:
        asked |= {"command": STDIO[0], "args": STDIO[1:]}
    done = subprocess.run(
        [str(node), str(HERE / "clients.mjs"), str(SUITE), json.dumps(asked)],
        env=surroundings(project),
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode:
        return [" ".join(done.stderr.split())[:600]], 1
    return weighed(json.loads(done.stdout))


def _python(project: Path, mode: str, where: tuple[str, str] | None) -> tuple[list[str], int]:
    return weighed(anyio.run(_seen, project, mode, where))


async def _seen(project: Path, mode: str, where: tuple[str, str] | None) -> dict[str, Any]:
    if where is None:
        server: Any = StdioServerParameters(
            command=STDIO[0], args=STDIO[1:], cwd=project, env=surroundings(project)
        )
        return await _asked(server, mode)
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    url, token = where
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as web:
        return await _asked(streamable_http_client(url, http_client=web), mode)


async def _asked(server: Any, mode: str) -> dict[str, Any]:
    async with Client(server, mode=mode) as client:
        tools = (await client.list_tools()).tools
        good = await client.call_tool("recommend_fix", GOOD)
        bad = await client.call_tool("recommend_fix", BAD)
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


def _inspected(node: Path, project: Path, era: str) -> tuple[list[str], int]:
    """Call every method as a person at a shell would."""
    server = {"command": STDIO[0], "args": STDIO[1:], "protocolEra": era, "cwd": str(project)}
    config = project / f"inspector-{era}.json"
    config.write_text(json.dumps({"mcpServers": {"kb": server}}), encoding="utf-8")

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        main = [str(node), str(MODULES / ".bin" / "mcp-inspector"), "--cli"]
        return subprocess.run(
            [*main, "--config", str(config), "--server", "kb", "--format", "json", *words],
            env=surroundings(project)
            | environment(node)
            | {"MCP_INSPECTOR_SECRET_STORE": "memory"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    call = ("--method", "tools/call", "--tool-name", "recommend_fix")
    wanted = [
        ("tools/list --strict", ("--method", "tools/list", "--strict"), 0, "recommend_fix"),
        ("tools/call", (*call, "--tool-arg", "speedup=0.3", "occupancy=0.4"), 0, "kernels"),
        ("tools/call, failing", (*call, "--tool-arg", 'metrics={"nope":1}'), REFUSED, "nope"),
    ]
    failures = []
    for method, key in (("resources", "uri"), ("prompts", "name")):
        listed = ask("--method", f"{method}/list")
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
        done = ask(*words)
        if done.returncode != status or text not in done.stdout + done.stderr:
            said = " ".join((done.stderr or done.stdout).split())[-300:]
            failures.append(f"{what}: exit {done.returncode}: {said}")
    return failures, len(wanted) + 2
