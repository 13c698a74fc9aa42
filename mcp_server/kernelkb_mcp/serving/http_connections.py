"""Limits on HTTP connections: their number, and the time that each may take to send a request.

uvicorn limits neither: it reads a request however long it takes, and its ``limit_concurrency``
answers 503 only after a connection has sent one. asyncio accepts connections until no file
descriptor is left, and prints a stack for each that it cannot accept.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import signal
import socket
import time
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from kernelkb_mcp.serving.shutdown import exit_after

REQUEST_TIMEOUT_S = 10.0
"""Seconds in which the headers of a request must arrive, and then as long again for its body."""
READING_TIMEOUT_S = 60.0
"""Seconds for which a client may leave its answers unread when the buffers are full."""
END_TIMEOUT_S = 5.0
"""Seconds after a signal in which answers and threads may end by themselves."""
MAX_CONNECTIONS = 1000
_WANTED_DESCRIPTORS = 4096
"""The soft limit is raised to this, as far as the hard limit allows."""
_OTHER_DESCRIPTORS = 100
"""Descriptors that are left for files, pipes of compilers and workers, and the database."""
_ACCEPTED_AT_ONCE = 16
"""Connections accepted before the event loop may close others."""
_REPORT_GAP_S = 60.0
"""Minimum time between two messages about refused connections."""
_FULL_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_BUSY_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\n"
    b"Connection: close\r\n\r\n"
)
_LOG = logging.getLogger(__name__)


class PacedListener(socket.socket):
    """A listening socket that accepts a few connections for each turn of the event loop.

    asyncio accepts up to its backlog in one turn, before any of them can be counted or closed.
    """

    _accepted = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Raises:
            BlockingIOError: There is none, or enough were accepted in this turn.
        """
        if self._accepted >= _ACCEPTED_AT_ONCE:
            self._accepted = 0
            raise BlockingIOError
        self._accepted += 1
        try:
            return super().accept()
        except BlockingIOError:
            self._accepted = 0
            raise


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 in which a connection must send its request in time, and waiting ones make room."""

    _deadline: asyncio.TimerHandle | None = None
    _read_deadline: asyncio.TimerHandle | None = None
    _awaited: object = None
    """The part of a request that the deadline is for: a state of h11."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; the one that waited longest makes room for it."""
        super().connection_made(transport)
        self._watch_request()
        if len(self.connections) > count_allowed_connections():
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._watch_request()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch_request()

    def pause_writing(self) -> None:
        """Wait for the client to read its answers, for a time."""
        super().pause_writing()
        self._read_deadline = self.loop.call_later(READING_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client reads."""
        super().resume_writing()
        self._cancel_read_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._cancel_deadline()
        self._cancel_read_deadline()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def _watch_request(self) -> None:
        """Set a deadline for the part of a request that is awaited; none while one is answered."""
        state = self.conn.their_state
        is_awaited = state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing()
        if is_awaited and state is self._awaited and self._deadline is not None:
            return  # some bytes of the same part: its deadline stays
        self._cancel_deadline()
        self._awaited = state
        if is_awaited:
            self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel_read_deadline(self) -> None:
        if self._read_deadline is not None:
            self._read_deadline.cancel()
            self._read_deadline = None

    def _make_room(self) -> None:
        others = {
            one: one._deadline.when()
            for one in self.connections
            if isinstance(one, LimitedProtocol) and one is not self and one._deadline is not None
        }
        if others:
            oldest = min(others, key=lambda one: others[one])
            oldest.transport.abort()
            self.connections.discard(oldest)
        else:
            _report_full("every connection is at work")
            self.transport.write(_BUSY_ANSWER)
            self.transport.close()


class LimitedServer(uvicorn.Server):
    """uvicorn that says in one line that no connection can be accepted, and ends in time."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve."""
        asyncio.get_running_loop().set_exception_handler(_report_loop_error)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; threads that work on are not awaited for long."""
        exit_after(END_TIMEOUT_S, 128 + next(iter(self._captured_signals), signal.SIGTERM))
        await super().shutdown(sockets)


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
