"""Streamable HTTP: bearer-token check in front of the server, with Host and Origin allow-lists.

The SDK checks the lists (exact entries: its ``host:*`` patterns compare prefixes), limits the body
and checks the bearer token. Its ``AuthSettings`` are not used: they announce an OAuth issuer, and
clients would look for one instead of sending the token that they were given.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from mcp.server.auth.provider import AccessToken

from kernelkb_mcp.calls.tool_adapter import KernelServer
from kernelkb_mcp.serving.options import HttpConfig
from kernelkb_mcp.serving.token import Token

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"
_MAX_BODY_BYTES = 4 * 2**20
_GRACE_S = 1
"""Seconds that open streams may delay the shutdown."""
SESSION_IDLE_S = 900.0
"""Seconds without a request or stream after which a session of the older protocol ends."""
_MAX_SESSIONS = 1000
"""Open sessions of the older protocol, 40 kB each."""


def build_unauthenticated_app(
    server: KernelServer, http_config: HttpConfig, port: int
) -> Starlette:
    """Return the server as an ASGI application WITHOUT a token: never serve it by itself.

    Args:
        server: The MCP server.
        http_config: Allowed hosts and origins.
        port: The bound port; part of the Host header that clients must send.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    return server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=_MAX_BODY_BYTES,
        session_idle_timeout=SESSION_IDLE_S,
        max_sessions=_MAX_SESSIONS,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=list_accepted_hosts(http_config, port),
            allowed_origins=list(http_config.allowed_origins),
        ),
    )


def require_token(inner: Starlette, token: str, origins: tuple[str, ...] = ()) -> ASGIApp:
    """Return an application that rejects requests without the token before they reach ``inner``.

    Args:
        inner: The protected application; shares this one's lifespan.
        token: Expected in ``Authorization: Bearer``.
        origins: Allowed CORS origins; browsers ask before they send the token.
    """
    from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.authentication import AuthenticationMiddleware
    from starlette.middleware.cors import CORSMiddleware
    from starlette.routing import Mount

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with inner.router.lifespan_context(inner):
            yield

    layers = [
        Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(_TokenVerifier(token)))
    ]
    if origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["Mcp-Session-Id", "WWW-Authenticate"],
        )
        layers.insert(0, cors)
    protected = _ignore_hang_ups(RequireAuthMiddleware(inner, required_scopes=[]))
    return Starlette(
        routes=[Mount("/", app=protected)],
        middleware=layers,
        lifespan=lifespan,
    )


def serve(server: KernelServer, http_config: HttpConfig, token: Token) -> None:
    """Serve until a signal ends this process.

    Raises:
        OSError: The address cannot be bound.
    """
    import uvicorn

    from kernelkb_mcp.serving.http_connections import (
        LimitedProtocol,
        LimitedServer,
        raise_descriptor_limit,
    )

    raise_descriptor_limit()
    with bind_socket(http_config) as channel:
        port = channel.getsockname()[1]
        app = require_token(
            build_unauthenticated_app(server, http_config, port),
            token.text,
            http_config.allowed_origins,
        )
        config = uvicorn.Config(
            app,
            http=LimitedProtocol,
            log_level="error",  # its warnings are about what strangers send
            access_log=False,
            ws="none",
            server_header=False,
            proxy_headers=False,  # no trusted proxy: forwarded headers are not believed
            timeout_graceful_shutdown=_GRACE_S,
        )
        _announce_url(http_config, port, token)
        LimitedServer(config).run(sockets=[channel])


def list_accepted_hosts(http_config: HttpConfig, port: int) -> list[str]:
    """Return every accepted Host header, with port, as clients spell it."""
    names = [_format_host(http_config.host)]
    if http_config.host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::"):  # noqa: S104 compared
        names = ["127.0.0.1", "localhost", *(["[::1]"] if ":" in http_config.host else [])]
    if http_config.host in ("0.0.0.0", "::"):  # noqa: S104 compared
        names.append(socket.gethostname())
    hosts = [f"{name}:{port}" for name in names]
    for name in http_config.allowed_hosts:
        hosts += [name] if ":" in name.rpartition("]")[2] else [name, f"{name}:{port}"]
    return [*hosts, *(names if port == 80 else [])]


def _ignore_hang_ups(inner: ASGIApp) -> ASGIApp:
    """Return an application that ends quietly when a client leaves in the middle of its body."""
    from starlette.requests import ClientDisconnect

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect):
            await inner(scope, receive, send)

    return answer


class _TokenVerifier:
    """Compares with the server's one token in constant time."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        if not secrets.compare_digest(token.encode(errors="replace"), self._token):
            return None
        return AccessToken(token=token, client_id="holder", scopes=[])


def _format_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def bind_socket(http_config: HttpConfig) -> socket.socket:
    """Bind and listen first, so that the printed URL is true."""
    family = socket.AF_INET6 if ":" in http_config.host else socket.AF_INET
    from kernelkb_mcp.serving.http_connections import PacedListener

    # asyncio sends small answers at once only where it knows that the protocol is TCP.
    channel = PacedListener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        channel.bind((http_config.host, http_config.port))
        channel.listen(128)
    except OSError:
        channel.close()
        raise
    return channel


def _announce_url(http_config: HttpConfig, port: int, token: Token) -> None:
    """Print the URL and client commands to stderr; print the token only if it is new."""
    name = "127.0.0.1" if http_config.host in ("0.0.0.0", "::") else _format_host(http_config.host)  # noqa: S104
    url = f"http://{name}:{port}{PATH}"
    shown = token.text if token.is_new else "$KERNELKB_TOKEN"
    lines = [f"kb-mcp serves {url}"]
    if token.is_new:
        lines.append(f"token, shown this once: {shown}")
    lines += [
        f'  claude mcp add --transport http kernelkb {url} -H "Authorization: Bearer {shown}"',
        f"  codex mcp add kernelkb --url {url} --bearer-token-env-var KERNELKB_TOKEN",
    ]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()
