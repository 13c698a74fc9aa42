"""Serve the product over HTTP to a suite that cannot send a token.

    python tests/conformance/serve.py [--fixtures]

Prints its URL and serves until a signal ends it. One layer stands in front of what ``kb-mcp``
serves and adds the token: Host and Origin lists, the body's cap and the token's check are its own.
"""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

sys.path.insert(0, str(Path(__file__).parent))

from asking_tasks import let_tasks_ask
from fixtures import add_fixtures

from kernelkb_mcp.server import build_server
from kernelkb_mcp.serving.http import PATH, build_unauthenticated_app, require_token
from kernelkb_mcp.serving.options import HttpConfig

TOKEN = "the-suite-cannot-send-one"  # noqa: S105 guards nothing


def main() -> None:
    """Serve on a free port of this machine."""
    parser = argparse.ArgumentParser(description="Serve kb-mcp to the conformance suite.")
    parser.add_argument("--fixtures", action="store_true", help="with the suite's own tools")
    options = parser.parse_args()
    if options.fixtures:
        let_tasks_ask()
    server = build_server()
    if options.fixtures:
        add_fixtures(server)
    with socket.create_server(("127.0.0.1", 0)) as channel:
        port = channel.getsockname()[1]
        own = (f"http://127.0.0.1:{port}", f"http://localhost:{port}")
        listen = HttpConfig(allowed_origins=own)
        app = BearerMiddleware(
            require_token(build_unauthenticated_app(server, listen, port), TOKEN, own)
        )
        print(f"{own[0]}{PATH}", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none")).run(sockets=[channel])


class BearerMiddleware:
    """Adds the token to every request."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Hand on a request as a client that knows the token would have sent it."""
        if scope["type"] == "http":
            said = (b"authorization", f"Bearer {TOKEN}".encode())
            scope = {**scope, "headers": [*scope["headers"], said]}
        await self.inner(scope, receive, send)


if __name__ == "__main__":
    main()
