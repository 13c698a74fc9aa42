"""Serves the page until a signal ends it."""

from __future__ import annotations

import socket
import sys
import threading
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kernelkb.errors import BadValueError
from kernelkb.safety.http_access import (
    HttpConfig,
    bind_socket,
    format_host,
    is_loopback,
    list_accepted_hosts,
    load_token,
)
from kernelkb.web.application import build_application, warm_up
from kernelkb.web.live import END

if TYPE_CHECKING:
    from starlette.types import ASGIApp

DEFAULT_PORT = 8766
_MAX_CONNECTIONS = 200
_END_S = 3
"""Seconds that open streams may delay the end."""
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 compared


def serve_page(
    address: HttpConfig, *, allow_remote: bool, writes: bool, opens_browser: bool
) -> None:
    """Serve the page of the project around the working directory.

    Args:
        address: Where, and the file of the token.
        allow_remote: Whether other machines may reach it.
        writes: Whether the page may change something.
        opens_browser: Whether to open the page in one.

    Raises:
        BadValueError: The address is not loopback and that was not allowed, the token's file is
            wrong, or the address is in use.
    """
    if not is_loopback(address.host) and not allow_remote:
        raise BadValueError(
            f"--host {address.host} can be reached from other machines: who has the token can run "
            "code here, and it crosses the network in the clear; add --allow-remote if you mean it"
        )
    token = load_token(address.token_file)
    try:
        channel = bind_socket(address)
    except OSError as error:
        told = f"{address.host}:{address.port}: {error.strerror}; --port 0 chooses a free port"
        raise BadValueError(f"cannot listen on {told}") from error
    with channel:
        port = channel.getsockname()[1]
        page = build_application(token.text, list_accepted_hosts(address, port), writes=writes)
        threading.Thread(target=warm_up).start()  # Python waits: it would end within C++ code
        name = "127.0.0.1" if address.host in _ANY_ADDRESS else format_host(address.host)
        url = f"http://{name}:{port}/"
        shown = f"{url}?token={token.text if token.is_new else 'TOKEN'}"
        shown += "" if writes else ", read-only"
        sys.stdout.write(f"kb web serves {shown}; Ctrl-C ends it\n")
        sys.stdout.flush()
        if opens_browser:
            webbrowser.open(f"{url}?token={token.text}")
        _run(page, channel)


def _run(application: ASGIApp, channel: socket.socket) -> None:
    import uvicorn

    class PageServer(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            END.set()
            super().handle_exit(sig, frame)

    served = uvicorn.Config(
        application,
        loop="asyncio",
        http="h11",
        limit_concurrency=_MAX_CONNECTIONS,
        log_level="error",
        access_log=False,
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_END_S,
    )
    with suppress(KeyboardInterrupt):
        PageServer(served).run(sockets=[channel])
