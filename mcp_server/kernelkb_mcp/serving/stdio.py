"""Serves over stdio: answers lines that are no message, and ends soon after its input."""

from __future__ import annotations

from contextvars import Context
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

from kernelkb_mcp.serving.shutdown import exit_after, exit_now

if TYPE_CHECKING:
    from mcp.shared._context_streams import ContextReceiveStream, ContextSendStream

    from kernelkb_mcp.calls.tool_adapter import KernelServer

END_TIMEOUT_S = 3.0
"""Seconds after the end of the input in which threads may end by themselves."""


def serve_stdio(server: KernelServer) -> None:
    """Serve until the input ends, then exit with status 0; a thread that works is not awaited.

    A client that no longer reads has ended, too.
    """
    try:
        anyio.run(_serve, server)
    except* BrokenPipeError:
        exit_now(0)
    exit_now(0)


async def _serve(server: KernelServer) -> None:
    from mcp.server.stdio import stdio_server

    lowlevel = server._lowlevel_server
    async with stdio_server() as (messages, answers):
        await lowlevel.run(
            AnsweredMessages(messages, answers), answers, lowlevel.create_initialization_options()
        )


class AnsweredMessages:
    """The messages of a stream; what is not one is answered with an error of JSON-RPC.

    The SDK drops such lines, and a client would wait for the answer without end.
    """

    def __init__(
        self,
        messages: ContextReceiveStream[SessionMessage | Exception],
        answers: ContextSendStream[SessionMessage],
    ) -> None:
        self._messages, self._answers = messages, answers

    @property
    def last_context(self) -> Context | None:
        """The context variables of the sender of the last message."""
        return self._messages.last_context

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: The input has ended; this process ends soon.
        """
        while True:
            try:
                message = await self._messages.receive()
            except anyio.EndOfStream:
                exit_after(END_TIMEOUT_S, 0)
                raise
            if not isinstance(message, Exception):
                return message
            error = describe_bad_line(message)
            if error is not None:
                answer = JSONRPCError(jsonrpc="2.0", id=None, error=error)
                await self._answers.send(SessionMessage(answer))

    async def aclose(self) -> None:
        """Close the stream."""
        await self._messages.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def describe_bad_line(error: Exception) -> ErrorData | None:
    """Return the error of JSON-RPC for a line that is no message; None for an empty line."""
    if not isinstance(error, ValidationError):
        return ErrorData(code=PARSE_ERROR, message="Parse error: not a line of UTF-8 JSON")
    first = error.errors(include_url=False)[0]
    if first["type"] != "json_invalid":
        return ErrorData(code=INVALID_REQUEST, message="Invalid request: no JSON-RPC 2.0 message")
    if isinstance(first["input"], str) and not first["input"].strip():
        return None
    return ErrorData(code=PARSE_ERROR, message=f"Parse error: {first['msg'].lower()[:200]}")
