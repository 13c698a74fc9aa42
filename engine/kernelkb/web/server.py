"""Serves the page until a signal ends it."""

from __future__ import annotations

import socket
import sys
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.errors import BadValueError
from kernelkb.safety.http_access import (
    HttpConfig,
    Token,
    bind_socket,
    format_host,
    is_loopback,
    list_accepted_hosts,
    load_token,
)
from kernelkb.web.access import WebAccess
from kernelkb.web.application import build_application, warm_up

if TYPE_CHECKING:
    from starlette.types import ASGIApp

DEFAULT_PORT = 8766
_MAX_CONNECTIONS = 200
_END_S = 1
"""Seconds that open streams may delay the end."""
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 compared


class WebConfig(NamedTuple):
    """Where the page is served, and for whom."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0: the system chooses a free port."""
    allow_remote: bool = False
    token_file: Path | None = None
    read_only: bool = False
    opens_browser: bool = False


def serve_page(config: WebConfig) -> None:
    """Serve the page of the project around the working directory.

    Raises:
        BadValueError: The address is not loopback and that was not allowed, the token's file is
            wrong, or the address is in use.
    """
    if not is_loopback(config.host) and not config.allow_remote:
        raise BadValueError(
            f"--host {config.host} can be reached from other machines: who has the token can build "
            "and run code here, and it crosses the network in the clear; add --allow-remote if you "
            "mean that"
        )
    token = load_token(config.token_file)
    address = HttpConfig(config.host, config.port)
    try:
        channel = bind_socket(address)
    except OSError as error:
        where = f"{config.host}:{config.port}"
        raise BadValueError(
            f"cannot listen on {where}: {error.strerror}; --port 0 chooses a free port"
        ) from error
    with channel:
        port = channel.getsockname()[1]
        access = WebAccess(
            token.text, frozenset(list_accepted_hosts(address, port)), config.read_only
        )
        application = build_application(access)
        threading.Thread(target=warm_up, daemon=True).start()
        _announce(config, port, token)
        _run(application, channel)


def _run(application: ASGIApp, channel: socket.socket) -> None:
    import uvicorn

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
        uvicorn.Server(served).run(sockets=[channel])


def _announce(config: WebConfig, port: int, token: Token) -> None:
    """Print the address, with the token if it is new; open it in a browser if that is wanted."""
    name = "127.0.0.1" if config.host in _ANY_ADDRESS else format_host(config.host)
    url = f"http://{name}:{port}/"
    shown = f"{url}?token={token.text}" if token.is_new else f"{url}?token=TOKEN"
    mode = ", read-only" if config.read_only else ""
    sys.stdout.write(f"kb web serves {shown}{mode}; Ctrl-C ends it\n")
    sys.stdout.flush()
    if config.opens_browser:
        webbrowser.open(f"{url}?token={token.text}")
