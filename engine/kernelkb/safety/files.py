"""Writes a file as a whole: after a full disk or a kill it is what it was, or all of the new one.

``replace_file`` takes the place of a file, ``exchange_file`` also returns what was there,
``create_file`` never replaces one, and ``keep_file`` is for caches, which a command can do without.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kernelkb.safety.workspace import resolve_inside

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def replace_file(path: Path, body: str | bytes | Iterable[str], *, is_synced: bool = True) -> None:
    """Write a file beside the old one, sync it to the disk, and rename it; keeps its mode.

    Args:
        path: The file, which need not exist; a link is followed. Its folder must exist.
        body: The content, or its pieces; text is written as UTF-8.
        is_synced: False for what can be made again: syncing takes 10 ms.

    Raises:
        OSError: The file cannot be written, and is as it was.
    """
    target = Path(os.path.realpath(path))  # resolve() raises on a link to itself
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    pieces = [body] if isinstance(body, str | bytes) else body
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(one.encode() if isinstance(one, str) else one for one in pieces)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        draft.chmod(mode)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def keep_file(path: Path, body: str | bytes) -> None:
    """Write a file of a cache, and its folder; where that is impossible, nothing is kept."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, body)


def create_file(path: Path, body: bytes) -> None:
    """Create a file inside the workspace; it appears whole or not at all.

    Raises:
        FileExistsError: The file exists.
        OSError: The file cannot be written, and was not created.
    """
    resolve_inside(path.parent, to_write=True)
    draft = _write_draft(path, body)
    try:
        os.link(draft, path)  # unlike a rename, it never replaces an existing file
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def exchange_file(path: Path, content: bytes) -> bytes | None:
    """Write a file in place of another; return what the other held, or None if there was none.

    Both change places in one step of the file system (``renameat2``), so that no work is lost.
    Where it cannot do that, the old file is read just before it is replaced.

    Raises:
        OSError: The file cannot be written; it is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _write_draft(path, content)
    try:
        if not path.exists():
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


def _write_draft(path: Path, body: bytes) -> Path:
    """Write a new file beside ``path``, on the disk when this returns; none is left on an error."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with open(draft, "xb", opener=_open_plain) as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


def _open_plain(path: str, flags: int) -> int:
    return os.open(path, flags, 0o644)


def _exchange(one: Path, other: Path) -> bool:
    """Let two files change places; return whether the file system can."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    done: int = renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    return done == 0
