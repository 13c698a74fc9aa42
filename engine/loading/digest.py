"""What the knowledge files are, by content. Imports nothing slow: every start of kb asks it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from engine.loading.workspace import read_bytes

try:  # hashlib would load OpenSSL for it, and that costs a twentieth of a start
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b


def files_of(root: str) -> list[str]:
    """Return every YAML file below ``root``, relative, with forward slashes, in a fixed order."""
    found: list[str] = []
    for folder, _, names in os.walk(root):
        inside = os.path.relpath(folder, root).replace(os.sep, "/")
        prefix = "" if inside == "." else f"{inside}/"
        found += [prefix + name for name in names if name.endswith(".yaml")]
    return sorted(found)


def key(root: str, overlay: str | None = None) -> str:
    """Return 128 bits of BLAKE2b over every knowledge file's relative path and bytes.

    Args:
        root: The knowledge folder.
        overlay: A project's own folder on top of it, None if there is none.
    """
    return _over(blake2b(digest_size=16), root, overlay)


def digest(root: str, overlay: str | None = None) -> str:
    """Return the SHA-256 of the same: what an answer says it was made from."""
    from hashlib import sha256

    return _over(sha256(), root, overlay)


def _over(running: Any, root: str, overlay: str | None) -> str:
    for part in _parts(root, overlay):
        running.update(part)
    return str(running.hexdigest())


def _parts(root: str, overlay: str | None) -> Iterator[bytes]:
    for folder in (root, overlay) if overlay else (root,):
        for relative in files_of(folder):
            path = os.path.join(folder, relative)
            # What ships is ours, and asking where each of its files leads takes four times as long.
            body = _body(path) if folder == root else read_bytes(path)
            yield f"{relative}\0{len(body)}\0".encode()
            yield body
        yield b"\0\0"


def _body(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
