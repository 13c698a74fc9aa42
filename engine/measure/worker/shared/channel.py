"""Messages between the judge and a runner: JSON packets over a socket pair.

A packet is never unpickled: whatever a runner sends is text, bounded, and answers one request.
"""

from __future__ import annotations

import json
import socket
from typing import Any

Message = dict[str, Any]

MAX_PACKET_BYTES = 160_000
"""Bytes of a packet; Linux takes packets up to its socket buffer, 212,992 by default."""


class ProtocolError(Exception):
    """The other side sent something that is not the one answer to the last request."""


def send(channel: socket.socket, message: Message, *descriptors: int) -> None:
    """Send one message, with open files where the other side needs them."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > MAX_PACKET_BYTES:
        raise ProtocolError(f"a message of {len(data)} bytes is larger than {MAX_PACKET_BYTES}")
    if descriptors:
        socket.send_fds(channel, [data], descriptors)
    else:
        channel.send(data)


def receive(channel: socket.socket) -> Message:
    """Return the next message.

    Raises:
        EOFError: The other side has gone.
        ProtocolError: It is not a JSON object.
    """
    return _parse_message(channel.recv(MAX_PACKET_BYTES))


def receive_with_files(channel: socket.socket) -> tuple[Message, list[int]]:
    """Return the next message and the files that came with it. Raises like ``receive``."""
    data, descriptors, _, _ = socket.recv_fds(channel, MAX_PACKET_BYTES, 4)
    return _parse_message(data), descriptors


def _parse_message(data: bytes) -> Message:
    if not data:
        raise EOFError
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("the answer is not JSON") from error
    if not isinstance(message, dict):
        raise ProtocolError("the answer is not an object")
    return message
