"""Serve the product over HTTP for a suite that cannot send a token.

    python tests/conformance/serve.py [--fixtures]

Prints its URL and serves until its input ends. All that stands between the suite and the server is
one layer in front, which adds the token to each request: Host, Origin, body cap and the token's
own check are those of ``kb-mcp``.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

TOKEN = "conformance"
PATH = "/mcp"


def main() -> None:
    """Serve on a free port of this machine."""
    parser = argparse.ArgumentParser(description="Serve kb-mcp for the conformance suite.")
    parser.add_argument("--fixtures", action="store_true", help="with the suite's own tools")
    options = parser.parse_args()
    from mcp_server.server import build_server

    server = build_server()
    if options.fixtures:
        from fixtures import furnish

        furnish(server)
    serve(server)


def serve(server) -> None:
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    channel = socket.socket()
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    channel.bind(("127.0.0.1", 0))
    port = channel.getsockname()[1]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[f"127.0.0.1:{port}", f"localhost:{port}"],
            allowed_origins=[f"http://127.0.0.1:{port}", f"http://localhost:{port}"],
        ),
    )

    def ended() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=ended, daemon=True).start()
    print(f"http://127.0.0.1:{port}{PATH}", flush=True)
    config = uvicorn.Config(app, log_level="warning", ws="none")
    uvicorn.Server(config).run(sockets=[channel])


if __name__ == "__main__":
    main()
