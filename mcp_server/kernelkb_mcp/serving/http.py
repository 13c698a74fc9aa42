"""Streamable HTTP: bearer-token check in front of the server, with Host and Origin allow-lists.

The SDK checks the lists (exact entries: its ``host:*`` patterns compare prefixes), limits the body
and checks the bearer token. Its ``AuthSettings`` are not used: they announce an OAuth issuer, and
clients would look for one instead of sending the token that they were given.

Slow clients are limited by what uvicorn offers: the number of connections, not the time that each
takes to send its headers or to read its answer. A body must arrive in time.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from mcp.server.auth.provider import AccessToken
from mcp.types import JSONRPCMessage, JSONRPCRequest, jsonrpc_message_adapter

from kernelkb.safety.http_access import (
    HttpConfig,
    Token,
    bind_socket,
    format_host,
    list_accepted_hosts,
)
from kernelkb_mcp.calls.tool_adapter import KernelServer
from kernelkb_mcp.serving.shutdown import END_TIMEOUT_S, exit_after

if TYPE_CHECKING:
    from types import FrameType

    import uvicorn
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH = "/mcp"
_MAX_BODY_BYTES = 4 * 2**20
REQUEST_TIMEOUT_S = 10.0
"""Seconds in which the body of a request must arrive."""
MAX_CONNECTIONS = 1000
"""With more, requests are answered 503: also where the others send nothing."""
_WANTED_DESCRIPTORS = 4096
"""The soft limit is raised to this, as far as the hard limit allows."""
_OTHER_DESCRIPTORS = 100
"""Descriptors that are left for files, pipes of compilers and workers, and the database."""
_REPORT_GAP_S = 60.0
"""Minimum time between two messages about refused connections."""
_FULL_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LOG = logging.getLogger(__name__)
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
    from mcp.server import streamable_http as sdk
    from mcp.server.transport_security import TransportSecuritySettings

    vars(sdk)["jsonrpc_message_adapter"] = SimpleNamespace(validate_python=parse_fields)
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


def parse_fields(fields: Any, **options: Any) -> JSONRPCMessage:
    """Return the message of a body; the SDK takes a request with a wrong id for a notification.

    Raises:
        ValidationError: It is none.
    """
    if isinstance(fields, dict) and "method" in fields and fields.get("id") is not None:
        return JSONRPCRequest.model_validate(fields, **options)
    return jsonrpc_message_adapter.validate_python(fields, **options)


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
    authorized = RequireAuthMiddleware(inner, required_scopes=[])
    protected = _end_late_bodies(_ignore_hang_ups(authorized))
    routes = [Mount("/", app=protected)]
    return _refuse_two_tokens(Starlette(routes=routes, middleware=layers, lifespan=lifespan))


def _refuse_two_tokens(inner: ASGIApp) -> ASGIApp:
    """Return an application that answers 400 where it is not clear which token counts."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        names = [name for name, _ in scope.get("headers", ())]
        if names.count(b"authorization") > 1:
            headers = [(b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await inner(scope, receive, send)

    return answer


def serve(server: KernelServer, http_config: HttpConfig, token: Token) -> None:
    """Serve until a signal ends this process.

    Raises:
        OSError: The address cannot be bound.
    """
    import uvicorn

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
            loop="asyncio",  # that of uvloop would hear of signals in place of the watcher
            http="h11",
            limit_concurrency=count_allowed_connections(),
            log_level="error",  # its warnings are about what strangers send
            access_log=False,
            ws="none",
            server_header=False,
            proxy_headers=False,  # no trusted proxy: forwarded headers are not believed
            timeout_graceful_shutdown=_GRACE_S,
        )
        _announce_url(http_config, port, token)
        _make_uvicorn(config).run(sockets=[channel])


def _ignore_hang_ups(inner: ASGIApp) -> ASGIApp:
    """Return an application that ends quietly when a client leaves in the middle of its body."""
    from starlette.requests import ClientDisconnect

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect):
            await inner(scope, receive, send)

    return answer


def _end_late_bodies(inner: ASGIApp) -> ASGIApp:
    """Return an application that hears of a hang-up where a body does not arrive in time.

    A client that sent no whole body gets 408, so that it holds no session and no thread.
    """
    import anyio

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        deadline = anyio.current_time() + REQUEST_TIMEOUT_S
        awaits_body, is_late, is_answered = scope["type"] == "http", False, False

        async def receive_in_time() -> Message:
            nonlocal awaits_body, is_late
            if not awaits_body:
                return await receive()
            with anyio.CancelScope(deadline=deadline):
                message = await receive()
                awaits_body = message.get("more_body", False)
                return message
            is_late = True
            return {"type": "http.disconnect"}

        async def send_unless_late(message: Message) -> None:
            nonlocal is_answered
            if is_answered or not is_late:
                is_answered = True
                await send(message)

        await inner(scope, receive_in_time, send_unless_late)
        if is_late and not is_answered:
            headers = [(b"content-length", b"0"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 408, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

    return answer


class _TokenVerifier:
    """Compares with the server's one token in constant time."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        if not secrets.compare_digest(token.encode(errors="replace"), self._token):
            return None
        return AccessToken(token=token, client_id="holder", scopes=[])


def _announce_url(http_config: HttpConfig, port: int, token: Token) -> None:
    """Print the URL and client commands to stderr; print the token only if it is new."""
    name = "127.0.0.1" if http_config.host in ("0.0.0.0", "::") else format_host(http_config.host)  # noqa: S104
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


def _make_uvicorn(config: uvicorn.Config) -> uvicorn.Server:
    """Return a server that reports in one line that it is full, and ends in time."""
    import uvicorn

    class TimedServer(uvicorn.Server):
        _signal = signal.SIGTERM

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            self._signal = signal.Signals(sig)
            super().handle_exit(sig, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().set_exception_handler(_report_loop_error)
            await super().startup(sockets)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            exit_after(END_TIMEOUT_S, 128 + self._signal)  # threads that work on are not awaited
            # asyncio, if it was full, tries to accept once more on the socket that is closed here.
            asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
            await super().shutdown(sockets)

    return TimedServer(config)


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files, as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def count_allowed_connections() -> int:
    """Return how many connections may be open at once, below the limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(4, min(MAX_CONNECTIONS, soft - _OTHER_DESCRIPTORS, soft // 2))


def _report_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in _FULL_ERRNOS:
        _report_full((error.strerror or "the system is full").lower())
    else:
        loop.default_exception_handler(context)


_last_report_s = float("-inf")


def _report_full(reason: str) -> None:
    global _last_report_s
    if time.monotonic() - _last_report_s > _REPORT_GAP_S:
        _last_report_s = time.monotonic()
        _LOG.warning("new connections wait or are refused: %s; close some clients", reason)
