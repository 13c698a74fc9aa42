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


def digest(root: str) -> str:
    """Return the SHA-256 of every knowledge file's relative path and bytes."""
    running = hashlib.sha256()
    for relative in files_of(root):
        with open(os.path.join(root, relative), "rb") as file:
            body = file.read()
        running.update(f"{relative}\0{len(body)}\0".encode())
        running.update(body)
    return running.hexdigest()
