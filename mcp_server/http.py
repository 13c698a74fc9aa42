"""Streamable HTTP in two layers: the server with its Host and Origin lists, and a token before it.

The SDK keeps the lists (exact entries: its ``host:*`` patterns compare prefixes), caps the body and
checks the bearer token. Its ``AuthSettings`` are left out: they announce an OAuth issuer, here is
none, and clients would go looking for one instead of sending the token that they were given.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server.auth.provider import AccessToken

from kernelkb_mcp.options import HttpConfig
from kernelkb_mcp.token import Token
from kernelkb_mcp.tool_adapter import KernelServer

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp

PATH = "/mcp"
_MAX_BODY_BYTES = 4 * 2**20
_GRACE_S = 1
"""How long a stream that a client keeps open may hold up the end."""


def build_unauthenticated_app(
    server: KernelServer, http_config: HttpConfig, port: int
) -> Starlette:
    """Return the server as an ASGI application WITHOUT a token: never serve it by itself.

    Args:
        server: What answers.
        http_config: Whom to answer.
        port: Where it is served, which is part of what clients must send as Host.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    return server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=_MAX_BODY_BYTES,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=list_accepted_hosts(http_config, port),
            allowed_origins=list(http_config.allowed_origins),
        ),
    )


def require_token(inner: Starlette, token: str, origins: tuple[str, ...] = ()) -> ASGIApp:
    """Return an application that lets nobody through to ``inner`` without the token.

    Args:
        inner: What is guarded; runs as long as this one does.
        token: What a client sends as ``Authorization: Bearer``.
        origins: Web pages that may ask by CORS, which happens before a browser sends the token.
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
        asking = Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["Mcp-Session-Id", "WWW-Authenticate"],
        )
        layers.insert(0, asking)
    inside = RequireAuthMiddleware(inner, required_scopes=[])
    return Starlette(
        routes=[Mount("/", app=inside)],
        middleware=layers,
        lifespan=lifespan,
    )


def serve(server: KernelServer, http_config: HttpConfig, token: Token) -> None:
    """Serve until a signal ends this process.

    Raises:
        OSError: Nobody may listen there.
    """
    import uvicorn

    with _bind_socket(http_config) as channel:
        port = channel.getsockname()[1]
        app = require_token(
            build_unauthenticated_app(server, http_config, port),
            token.text,
            http_config.allowed_origins,
        )
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,  # a line for each call, and nobody has asked
            ws="none",
            server_header=False,
            proxy_headers=False,  # nobody stands in front of us whom we would have to believe
            timeout_graceful_shutdown=_GRACE_S,
        )
        _announce_url(http_config, port, token)
        uvicorn.Server(config).run(sockets=[channel])


def list_accepted_hosts(http_config: HttpConfig, port: int) -> list[str]:
    """Return every Host header that clients may send, with its port, as they spell it."""
    names = [_format_host(http_config.host)]
    if http_config.host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::"):  # noqa: S104 compared
        names = ["127.0.0.1", "localhost", *(["[::1]"] if ":" in http_config.host else [])]
    if http_config.host in ("0.0.0.0", "::"):  # noqa: S104 compared
        names.append(socket.gethostname())
    found = [f"{name}:{port}" for name in names]
    for name in http_config.allowed_hosts:
        found += [name] if ":" in name.rpartition("]")[2] else [name, f"{name}:{port}"]
    return [*found, *(names if port == 80 else [])]


class _TokenVerifier:
    """Compares with the one token there is, in a time that tells nothing about it."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        if not secrets.compare_digest(token.encode(errors="replace"), self._token):
            return None
        return AccessToken(token=token, client_id="holder", scopes=[])


def _format_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _bind_socket(http_config: HttpConfig) -> socket.socket:
    """Bind before anything is announced: what is printed is then so."""
    family = socket.AF_INET6 if ":" in http_config.host else socket.AF_INET
    channel = socket.socket(family)
    try:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        channel.bind((http_config.host, http_config.port))
        channel.listen(128)
    except OSError:
        channel.close()
        raise
    return channel


def _announce_url(http_config: HttpConfig, port: int, token: Token) -> None:
    """Say on stderr where the server is, and how a client is told; a known token is not shown."""
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
