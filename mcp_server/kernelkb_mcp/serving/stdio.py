"""Serves over stdio: answers lines that are no message, and ends soon after its input."""

from __future__ import annotations

from contextvars import Context
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from kernelkb_mcp.serving.shutdown import END_TIMEOUT_S, exit_after, exit_now

if TYPE_CHECKING:
    from mcp.shared._context_streams import ContextReceiveStream, ContextSendStream

    from kernelkb_mcp.calls.tool_adapter import KernelServer


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
    from mcp.server import stdio as sdk

    parser = SimpleNamespace(validate_json=parse_line)
    vars(sdk)["types"] = SimpleNamespace(jsonrpc_message_adapter=parser)
    lowlevel = server._lowlevel_server
    async with sdk.stdio_server() as (messages, answers):
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
            if isinstance(message, BadLineError):
                await self._answers.send(SessionMessage(message.answer))

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


class OddAnswer(JSONRPCError):
    """An error whose id is what the client sent, also where that is no id."""

    id: str | int | float | None  # type: ignore[assignment]


class BadLineError(Exception):
    """A line is no message of JSON-RPC."""

    def __init__(self, sent: object, code: int, message: str) -> None:
        super().__init__(message)
        own = sent if isinstance(sent, str | int | float) and not isinstance(sent, bool) else None
        error = ErrorData(code=code, message=message)
        self.answer = OddAnswer(jsonrpc="2.0", id=own, error=error)


class EmptyLineError(Exception):
    """A line holds nothing; it is not answered."""


def parse_line(line: str, **options: Any) -> JSONRPCMessage:
    """Return the message of a line.

    A request whose id is no id, such as ``1e3``, looks like a notification to the SDK, which would
    never answer it.

    Raises:
        BadLineError: It is none.
        EmptyLineError: There is nothing in it.
    """
    try:
        message = jsonrpc_message_adapter.validate_json(line, **options)
        if isinstance(message, JSONRPCRequest) or '"id"' not in line:
            return message
        fields = from_json(line)
        if fields.get("id") is None or "method" not in fields:
            return message
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if not line.strip():
            raise EmptyLineError from None
        if first["type"] == "json_invalid":
            said = f"Parse error: {first['msg'].lower()[:200]}"
            raise BadLineError(None, PARSE_ERROR, said) from None
        fields = from_json(line)
    own = fields.get("id") if isinstance(fields, dict) else None
    said = (
        "Invalid request: no JSON-RPC 2.0 message, whose id is text or an integer, params an object"
    )
    raise BadLineError(own, INVALID_REQUEST, said)
