"""Replaces a file and returns what was there at that very moment, so that no work is lost."""

from __future__ import annotations

import ctypes
import os
import secrets
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def exchange_file(path: Path, content: bytes) -> bytes | None:
    """Write a file in place of another; return what the other held, or None if there was none.

    Both change places in one step of the file system (``renameat2``). Where it cannot do that, the
    old file is read just before it is replaced.

    Raises:
        OSError: The file cannot be written; it is as it was.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.replace(path)
            return None
        draft.chmod(path.stat().st_mode & 0o777)
        if _exchange(draft, path):
            return draft.read_bytes()
        before = path.read_bytes()
        draft.replace(path)
        return before
    finally:
        draft.unlink(missing_ok=True)


def _exchange(one: Path, other: Path) -> bool:
    """Let two files change places; return whether the file system can."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    done: int = renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    return done == 0
