"""One whole optimisation by a scripted MCP client, which follows each answer's ``next``.

    python benchmarks/scripted_client.py                  row_softmax, on the GPU where there is one
    python benchmarks/scripted_client.py --target cpu --workload small

A real ``kb-mcp`` over stdio, in a project of its own, from the prompt ``session_start`` to
``close_session``. Where the advice names a change, the client takes the variant whose ``applies``
names that fix, instead of writing one.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.types import TextContent

MIN_GAIN = 1.05
"""The ratio of two times of one run has no interval: only above this does it mean faster."""
SERVER_ARGS = ["-c", "from kernelkb_mcp.start import main; main()"]
WIDTH = 150


class OptimisationStoppedError(Exception):
    """The optimisation cannot continue; the message gives the reason."""


@dataclass
class ScriptedClient:
    """A client, with its count of calls and bytes, and its start time."""

    client: Client
    tool_names: frozenset[str]
    byte_count: int = 0
    call_count: int = 0
    started_s: float = field(default_factory=time.monotonic)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool, print its answer, wait for its job if it has one, return the result.

        Raises:
            OptimisationStoppedError: The tool returned an error.
        """
        began = time.monotonic()
        result = await self.client.call_tool(
            name, dict(arguments), progress_callback=_print_progress
        )
        text = "".join(part.text for part in result.content if isinstance(part, TextContent))
        self._print_answer(_format_call(name, arguments), text, time.monotonic() - began)
        if result.is_error:
            print(f"      refused: {text[:WIDTH]}")
            raise OptimisationStoppedError(f"{name}: {text}")
        answer: dict[str, Any] = result.structured_content or {}
        print(f"      {_summarize_answer(answer)[:WIDTH]}")
        for follow in _list_next_calls(answer):
            print(f"      next: {follow[:WIDTH]}")
        job = answer.get("job")
        if name != "job" and job:
            return await self._wait_for_job(job["id"])
        return answer

    async def _wait_for_job(self, handle: str) -> dict[str, Any]:
        while True:
            answer = await self.call("job", {"id": handle, "action": "wait"})
            state = answer["job"]
            if state["status"] == "done":
                return dict(answer["result"])
            if state["status"] != "running":
                raise OptimisationStoppedError(
                    f"{state['tool']} {state['status']}: {state['error']}"
                )

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> None:
        """Get a prompt, and print its size and first line."""
        began = time.monotonic()
        offered = {one.name for one in (await self.client.list_prompts()).prompts}
        if name not in offered:
            print(f"  --  prompt {name}: not offered")
            return
        got = await self.client.get_prompt(name, arguments)
        text = "".join(m.content.text for m in got.messages if isinstance(m.content, TextContent))
        self._print_answer(
            f"prompt {_format_call(name, arguments)}", text, time.monotonic() - began
        )
        print(f"      {text.strip().splitlines()[0][:WIDTH]}")

    def _print_answer(self, what: str, text: str, seconds: float) -> None:
        size = len(text.encode())
        self.byte_count += size
        self.call_count += 1
        print(
            f"{self.call_count:4}  {what[:WIDTH]}\n      {seconds:.1f} s, {size:,} bytes",
            flush=True,
        )


async def optimise(session: ScriptedClient, kernel: str, target: str, workload: str | None) -> None:
    """Run the loop once, then bench the variant that applies the advised fix."""
    asked = {"kernel": kernel, "target": target} | ({"workload": workload} if workload else {})
    await session.get_prompt("session_start", {"kernel": kernel})
    await session.call("session", {"goal": f"optimise {kernel}", "kernel": kernel})
    await session.call("read_entry", {"id": f"environment/{target}"})
    if "search_knowledge" in session.tool_names:
        await session.call("search_knowledge", {"query": f"{kernel} memory bound", "limit": 3})
    await session.call("build_kernel", {"kernel": kernel, "target": target})
    first = await session.call("bench_kernel", asked)
    before = _require_timed_bench(first)
    told = await call_next(session, first, "profile_kernel", asked)
    advice = await call_next(session, told, "recommend_fix", {})
    variant = await find_variant(session, kernel, before["target"], _list_fixes(advice))
    if variant is None:
        print("      no variant applies the advised fix; a user would write one now")
        came = {"went_wrong": ["no variant applies the advice"]}
    else:
        again = {**asked, "target": before["target"], "variant": variant}
        second = await session.call("bench_kernel", {**again, "against": before["variant"]})
        said, better = _describe_comparison(_require_timed_bench(second), before["variant"])
        print(f"      {said}")
        came = {"went_right" if better else "went_wrong": [said]}
    await session.call("session", {"action": "close", **came})
    await session.get_prompt("close_session", {})


async def call_next(
    session: ScriptedClient, answer: Mapping[str, Any], name: str, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Make the call of tool ``name`` that the answer's ``next`` lists.

    Raises:
        OptimisationStoppedError: ``next`` lists no call of that tool.
    """
    for follow in _list_next_calls(answer):
        tool, arguments = parse_call(follow)
        if tool == name:
            return await session.call(tool, {**arguments, **more})
    raise OptimisationStoppedError(
        f"next holds no call of {name}: {'; '.join(_list_next_calls(answer))}"
    )


async def find_variant(
    session: ScriptedClient, kernel: str, target: str, fixes: Sequence[str]
) -> str | None:
    """Return the variant that applies the best-ranked fix possible; None when there is none."""
    if "read_entry" not in session.tool_names:
        return {"cpu": "vectorized", "cuda": "warp"}[target] if fixes else None
    read = await session.call("read_entry", {"id": kernel})
    variants = [one for one in read["entry"]["variants"] if one["target"] == target]
    for fix in fixes:
        for one in variants:
            if fix in one["applies"]:
                print(f"      {one['id']} applies {fix}")
                return str(one["id"])
    return None


def parse_call(next_line: str) -> tuple[str | None, dict[str, Any]]:
    """Return tool and arguments of a line of ``next``; None and {} if it is no complete call.

    >>> parse_call("bench_kernel(kernel='a', target='cpu')")
    ('bench_kernel', {'kernel': 'a', 'target': 'cpu'})
    """
    try:
        call = ast.parse(next_line, mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            return None, {}
        given = {str(part.arg): ast.literal_eval(part.value) for part in call.keywords}
    except (SyntaxError, ValueError):
        return None, {}
    return (None, {}) if ... in given.values() else (call.func.id, given)


def _list_next_calls(answer: Mapping[str, Any]) -> list[str]:
    if "next" in answer:
        return list(answer["next"])
    return [follow for one in answer.get("kernels", ()) for follow in one["next"]]


def _summarize_answer(answer: Mapping[str, Any]) -> str:
    if "summary" in answer:
        return str(answer["summary"])
    return "; ".join(
        f"{one['gate']['verdict']}: {one['gate']['because']}" for one in answer["kernels"]
    )


def _require_timed_bench(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bench of an answer, which must have a time.

    Raises:
        OptimisationStoppedError: The candidate was not timed.
    """
    timed: dict[str, Any] = answer["bench"]
    if timed["candidate_us"] is None:
        raise OptimisationStoppedError(f"{timed['verdict']}: {timed['detail']}")
    return timed


def _describe_comparison(timed: Mapping[str, Any], rival: str) -> tuple[str, bool]:
    """Return a comparison of a variant with a rival of its run, and whether it is faster."""
    ours = timed["candidate_us"]
    (found,) = [one for one in timed["rivals"] if one["name"] == f"variant {rival}"]
    theirs = found["graph_us"] or found["eager_us"]
    what = f"{timed['variant']} took {ours:.6g} us"
    against = f"{timed['speedup']:.3g}x of {timed['baseline']}, {timed['verdict']}"
    if theirs is None:
        return f"{what}, {against}; {rival} could not be timed: {found['rejected']}", False
    gain = theirs / ours
    said = f"{what} where {rival} took {theirs:.6g} us, {gain:.3g}x; {against}"
    return said, gain > MIN_GAIN


def _list_fixes(advice: Mapping[str, Any]) -> list[str]:
    """Return the ids of the advised fixes, best first."""
    matches = [d for d in advice["kernels"][0]["diagnoses"] if d["verdict"] == "matches"]
    return [fix["id"] for diagnosis in matches for fix in diagnosis["fixes"]]


def _format_call(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


async def _print_progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
    print(f"      ... {(message or '')[:WIDTH]}", flush=True)


async def _run_client(server: StdioServerParameters, options: argparse.Namespace) -> int:
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        size = len(client.instructions or "")
        print(f"      {len(tools)} tools, instructions {size:,} bytes, {client.protocol_version}")
        session = ScriptedClient(client, frozenset(tool.name for tool in tools))
        try:
            await optimise(session, options.kernel, options.target, options.workload)
            status = 0
        except OptimisationStoppedError as error:
            print(f"      ended: {error}")
            status = 1
        seconds = time.monotonic() - session.started_s
        print(f"      {session.call_count} answers, {session.byte_count:,} bytes, {seconds:.0f} s")
    return status


def main() -> int:
    """Print the transcript; return 0 when the loop ran to its end, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kernel", default="row_softmax")
    parser.add_argument("--target", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--workload", help="by default the target's own")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sessions").mkdir()
        path = os.pathsep.join(
            filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
        )
        environment = {**os.environ, "PYTHONPATH": path}
        return anyio.run(
            _run_client,
            StdioServerParameters(
                command=sys.executable, args=SERVER_ARGS, cwd=folder, env=environment
            ),
            options,
        )


if __name__ == "__main__":
    sys.exit(main())
