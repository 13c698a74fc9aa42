"""Sends and receives JSON messages between the judge and a runner, over a Unix socket pair.

One message is one packet of bounded size. Nothing is unpickled: a runner's packets are untrusted.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

MAX_PACKET_BYTES = 160_000
"""Linux accepts packets up to net.core.wmem_default, 212,992 bytes unless it was changed."""
_MAX_FILES = 4
_SO_TIMESTAMPNS = 35  # asm-generic/socket.h
_TIMESPEC = struct.Struct("qq")


class ProtocolError(Exception):
    """A packet is too large or not a JSON object."""


def send(channel: socket.socket, message: Mapping[str, Any], *descriptors: int) -> None:
    """Send one message, with open files by their descriptors.

    Raises:
        ProtocolError: It is longer than ``MAX_PACKET_BYTES``.
        OSError: The other side has closed the socket.
    """
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > MAX_PACKET_BYTES:
        raise ProtocolError(f"a message of {len(data)} bytes is larger than {MAX_PACKET_BYTES}")
    if descriptors:
        socket.send_fds(channel, [data], descriptors)
    else:
        channel.send(data)


def receive(channel: socket.socket) -> dict[str, Any]:
    """Return the next message.

    Raises:
        EOFError: The other side has closed the socket.
        ProtocolError: It is not a JSON object.
    """
    return _parse_message(channel.recv(MAX_PACKET_BYTES))


class TimedMessage(NamedTuple):
    """A message, and how long it had lain in the socket when it was received."""

    message: dict[str, Any]
    delay_ns: int
    """By the system's clock, of which Linux notes the time of each packet; 0 where it does not."""


def request_times(channel: socket.socket) -> None:
    """Have Linux note when each packet is sent to this end of the channel."""
    with suppress(OSError):
        channel.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def receive_timed(channel: socket.socket) -> TimedMessage:
    """Return the next message. Raises like ``receive``."""
    data, notes, _, _ = channel.recvmsg(MAX_PACKET_BYTES, socket.CMSG_SPACE(_TIMESPEC.size))
    now_ns, sent_ns = time.time_ns(), 0
    for level, kind, note in notes:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(note) == _TIMESPEC.size:
            seconds, rest_ns = _TIMESPEC.unpack(note)
            sent_ns = seconds * 10**9 + rest_ns
    return TimedMessage(_parse_message(data), max(0, now_ns - sent_ns) if sent_ns else 0)


def receive_with_files(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return the next message and the descriptors that came with it. Raises like ``receive``."""
    data, descriptors, _, _ = socket.recv_fds(channel, MAX_PACKET_BYTES, _MAX_FILES)
    return _parse_message(data), descriptors


def _parse_message(data: bytes) -> dict[str, Any]:
    if not data:
        raise EOFError
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("the answer is not JSON") from error
    if not isinstance(message, dict):
        raise ProtocolError("the answer is not an object")
    return message
