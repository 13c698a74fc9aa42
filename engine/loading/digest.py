"""What the knowledge files are, by content. Imports nothing slow: every start of kb asks it."""

from __future__ import annotations

import hashlib
import os


def files_of(root: str) -> list[str]:
    """Return every YAML file below ``root``, relative, with forward slashes, in a fixed order."""
    found: list[str] = []
    for folder, _, names in os.walk(root):
        inside = os.path.relpath(folder, root).replace(os.sep, "/")
        prefix = "" if inside == "." else f"{inside}/"
        found += [prefix + name for name in names if name.endswith(".yaml")]
    return sorted(found)


def digest(root: str, overlay: str | None = None) -> str:
    """Return the SHA-256 of every knowledge file's relative path and bytes.

    Args:
        root: The knowledge folder.
        overlay: A project's own folder on top of it, None if there is none.
    """
    running = hashlib.sha256()
    for folder in (root, overlay) if overlay else (root,):
        for relative in files_of(folder):
            with open(os.path.join(folder, relative), "rb") as file:
                body = file.read()
            running.update(f"{relative}\0{len(body)}\0".encode())
            running.update(body)
        running.update(b"\0\0")
    return running.hexdigest()
