"""Latency and memory of the MCP server, against a server of the same SDK that only echoes.

    python benchmarks/mcp_latency.py              all tables, a few minutes
    python benchmarks/mcp_latency.py --only starts calls crowd tokens

The floor of every time is ``echo``: one tool without work, measured in the same run. The first
start of each server, which writes the bytecode that an installed one has, is not counted.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, cast

SERVER_COMMAND = [sys.executable, "-c", "from kernelkb_mcp.start import main; main()"]
ECHO_PROGRAM = """
from mcp.server import MCPServer
server = MCPServer("echo")
@server.tool()
async def echo(text: str) -> str:
    return text
server.run()
"""
TOKEN = "0123456789-token-of-this-program"  # noqa: S105 only for this program's server
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
CLIENT = {"name": "benchmark", "version": "1"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
CLIENT_COUNT = 16

# Server, number of tools, tokens. A token is estimated as 4 bytes of name, description and
# inputSchema in compact JSON, from each server's tools/list over stdio on 2026-11-20.
PEERS = (
    ("github-mcp-server, all toolsets", 117, 27_090),
    ("chrome-devtools-mcp 1.11.0", 32, 6_506),
    ("@playwright/mcp 0.0.83", 25, 4_121),
    ("awslabs aws-documentation 1.2.3", 5, 3_738),
    ("server-filesystem 2026.8.31", 14, 1_842),
    ("context7-mcp 4.1.1", 2, 1_117),
    ("server-everything", 13, 1_092),
    ("mcp-server-git 2026.10.19", 12, 1_066),
    ("server-memory", 9, 940),
    ("serena 2.1.0", 3, 873),
)


class ToolRequest(NamedTuple):
    """A tool and the arguments of its call."""

    name: str
    arguments: dict[str, Any]


RECOMMEND_REQUEST = ToolRequest("recommend_fix", {"speedup": 0.3, "occupancy": 0.4})
ECHO_REQUEST = ToolRequest("echo", {"text": "hi"})


class ServerConnection(Protocol):
    """A connection that sends requests to a server."""

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the response to one request."""


class StdioConnection:
    """A server as a child process on stdio; one request at a time."""

    def __init__(self, words: Sequence[str], environment: dict[str, str], era: str) -> None:
        self.era, self.request_count = era, 0
        ends: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.child = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL, **ends)
        self.stdin, self.stdout = (
            cast("IO[bytes]", self.child.stdin),
            cast("IO[bytes]", self.child.stdout),
        )

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and read until its response."""
        self.request_count += 1
        said = {**params, "_meta": ENVELOPE} if self.era == MODERN else params
        self._send({"jsonrpc": "2.0", "id": self.request_count, "method": method, "params": said})
        for text in self.stdout:
            heard: dict[str, Any] = json.loads(text)
            if heard.get("id") == self.request_count:
                return heard
        raise RuntimeError(f"the server ended before it answered {method}")

    def initialize(self) -> None:
        """Send the first messages of a client of this protocol version."""
        if self.era == MODERN:
            self.ask("server/discover", {})
            return
        first = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}
        self.ask("initialize", first)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def close(self) -> None:
        """Close the server's input, and wait at most 30 s for its end."""
        self.stdin.close()
        self.child.wait(30)

    def _send(self, message: dict[str, Any]) -> None:
        self.stdin.write(json.dumps(message).encode() + b"\n")
        self.stdin.flush()


class HttpServerConnection:
    """A client of an HTTP server, with its own connection."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Post a request; the answer is JSON, or the last event of a stream."""
        said = {**params, "_meta": ENVELOPE}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": said})
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
            "Mcp-Name": params.get("name", ""),
        }
        self.connection.request("POST", "/mcp", body, headers)
        text = self.connection.getresponse().read().decode()
        events = re.findall(r"^data: ?(\{.*)$", text, re.MULTILINE)
        heard: dict[str, Any] = json.loads(events[-1] if events else text)
        return heard


def main() -> None:
    """Print the selected tables."""
    parts: dict[str, Callable[[dict[str, str]], None]] = {
        "starts": time_starts,
        "calls": time_calls,
        "crowd": time_concurrent_clients,
        "tokens": count_tokens,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    chosen = parser.parse_args().only
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        (project / "sessions").mkdir(parents=True)
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        environment["PYTHONPATH"] = str(Path(__file__).parents[1])
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        os.chdir(project)
        for words in (SERVER_COMMAND, build_echo_command()):
            _start_server(words, environment, LEGACY).close()
        for name in chosen:
            parts[name](environment)


def build_echo_command() -> list[str]:
    """Return the command that starts the echo server, the floor of every time."""
    return [sys.executable, "-c", ECHO_PROGRAM]


def time_starts(environment: dict[str, str], runs: int = 20) -> None:
    """Time from process start to each of the first answers, alternating between both servers."""
    took: dict[tuple[str, str], list[float]] = {}
    for _ in range(runs):
        for name, words, tool in (
            ("kb-mcp", SERVER_COMMAND, RECOMMEND_REQUEST),
            ("echo", build_echo_command(), ECHO_REQUEST),
        ):
            began = time.perf_counter()
            server = StdioConnection(words, environment, LEGACY)
            steps: list[tuple[str, Callable[[], object]]] = [
                ("initialize", server.initialize),
                ("tools/list", lambda server=server: server.ask("tools/list", {})),  # type: ignore[misc]
                (f"first {tool.name}", lambda server=server, tool=tool: call_tool(server, tool)),  # type: ignore[misc]
            ]
            for what, step in steps:
                step()
                took.setdefault((name, what), []).append(time.perf_counter() - began)
            server.close()
    print(f"\nfrom the start of the process to the answer, s, of {runs}")
    print(f"{'':34}{'min':>8}{'median':>8}{'max':>8}{'wanted':>8}")
    for (name, what), seconds in took.items():
        wanted = f"{0.7:8.2f}" if (name, what) == ("kb-mcp", "initialize") else ""
        middle = statistics.median(seconds)
        print(f"{name}: {what:{32 - len(name)}}{min(seconds):8.2f}{middle:8.2f}", end="")
        print(f"{max(seconds):8.2f}{wanted}")


def time_calls(environment: dict[str, str], count: int = 1000) -> None:
    """Time sequential calls, with both protocol versions."""
    print(f"\none call over stdio, ms, of {count}")
    print(f"{'':34}{'p50':>8}{'p99':>8}{'max':>8}")
    for era in (LEGACY, MODERN):
        for words, tool in (
            (SERVER_COMMAND, RECOMMEND_REQUEST),
            (build_echo_command(), ECHO_REQUEST),
        ):
            server = _start_server(words, environment, era)
            call_tool(server, tool)
            seconds = sorted(_time_call(server, tool) for _ in range(count))
            server.close()
            middle, most = seconds[count // 2], seconds[count * 99 // 100]
            print(f"{tool.name + ', ' + era:34}{middle * 1e3:8.2f}{most * 1e3:8.2f}", end="")
            print(f"{seconds[-1] * 1e3:8.2f}")
    print(f"{'wanted of recommend_fix':34}{2:8.2f}{5:8.2f}")


def time_concurrent_clients(environment: dict[str, str], count: int = 10_000) -> None:
    """Run 16 clients at once: each with its own stdio server, then all on one HTTP server."""
    print(f"\n{CLIENT_COUNT} clients at once, {count:,} calls of recommend_fix in all")
    print(f"{'':34}{'errors':>8}{'calls/s':>9}{'MiB: start':>12}{'1,000':>8}{f'{count:,}':>8}")
    servers = [_start_server(SERVER_COMMAND, environment, MODERN) for _ in range(CLIENT_COUNT)]
    _run_clients("a server each, stdio", servers, [one.child.pid for one in servers], count)
    for server in servers:
        server.close()
    with _serve_http(environment) as (port, pid):
        _run_clients(
            "one server, HTTP",
            [HttpServerConnection(port) for _ in range(CLIENT_COUNT)],
            [pid],
            count,
        )


def count_tokens(environment: dict[str, str]) -> None:
    """Print the estimated tokens of our list of tools, and of other servers' lists."""
    server = _start_server(SERVER_COMMAND, environment, LEGACY)
    listed = server.ask("tools/list", {})["result"]["tools"]
    server.close()
    shown = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in listed]
    own = [len(json.dumps(tool, separators=(",", ":"))) // 4 for tool in shown]
    print(f"\nwhat a model is shown: bytes / 4\n{'':34}{'tools':>8}{'tokens':>8}{'a tool':>8}")
    rows = [*PEERS, ("kb-mcp", len(own), sum(own))]
    for name, number, total in sorted(rows, key=lambda row: -row[2]):
        print(f"{name:34}{number:8}{total:8,}{total // number:8}")


def call_tool(connection: ServerConnection, tool: ToolRequest) -> dict[str, Any]:
    """Call a tool.

    Raises:
        RuntimeError: The server did not answer, or the tool returned an error.
    """
    heard = connection.ask("tools/call", tool._asdict())
    if heard.get("result", {}).get("isError", True):
        raise RuntimeError(json.dumps(heard)[:300])
    return heard


def _start_server(words: Sequence[str], environment: dict[str, str], era: str) -> StdioConnection:
    server = StdioConnection(words, environment, era)
    server.initialize()
    return server


def _time_call(connection: ServerConnection, tool: ToolRequest) -> float:
    began = time.perf_counter()
    call_tool(connection, tool)
    return time.perf_counter() - began


def _run_clients(
    what: str, connections: Sequence[ServerConnection], pids: Sequence[int], count: int
) -> None:
    """Divide the calls among the clients; read the memory at start, after 1000 and at the end."""
    errors: list[str] = []

    def send_calls(line: ServerConnection, share: int) -> None:
        for _ in range(share):
            try:
                call_tool(line, RECOMMEND_REQUEST)
            except (RuntimeError, OSError, ValueError) as error:
                errors.append(str(error))

    sizes, busy = [_read_resident_mib(pids)], 0.0
    for portion in (1000, count - 1000):
        began = time.perf_counter()
        shares = [
            portion // CLIENT_COUNT + (n < portion % CLIENT_COUNT) for n in range(CLIENT_COUNT)
        ]
        threads = [
            threading.Thread(target=send_calls, args=pair)
            for pair in zip(connections, shares, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        busy += time.perf_counter() - began
        sizes.append(_read_resident_mib(pids))
    print(f"{what:34}{len(errors):8}{count / busy:9.0f}{sizes[0]:12.0f}", end="")
    print(f"{sizes[1]:8.0f}{sizes[2]:8.0f}{'  ' + errors[0] if errors else ''}", flush=True)


def _read_resident_mib(pids: Sequence[int]) -> float:
    """Return the total resident memory of the processes, in MiB."""
    texts = [Path(f"/proc/{pid}/status").read_text(encoding="utf-8") for pid in pids]
    return sum(int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) for text in texts) / 1024


@contextmanager
def _serve_http(environment: dict[str, str]) -> Iterator[tuple[int, int]]:
    with subprocess.Popen(
        [*SERVER_COMMAND, "--http", "--port", "0"],
        env={**environment, "KERNELKB_TOKEN": TOKEN},
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        said = cast("IO[str]", child.stderr).readline()
        try:
            yield int(re.findall(r":(\d+)/mcp", said)[0]), child.pid
        finally:
            child.terminate()


if __name__ == "__main__":
    main()
