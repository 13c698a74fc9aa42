"""The folders outside of which a server reads, writes, builds and runs nothing of a user's.

A server sets them once, when it starts. The command line sets none: whoever types may read
everything anyway, and then each function here does what its plain counterpart does.

A file is resolved, opened without waiting for a writer, and then it is asked where the open file
is: a link that somebody exchanges in between does not help. What remains is the name of a source,
which a compiler or an interpreter opens again (a compiler in a sandbox of its own, see
``measure.process.compiler_sandbox``), and a folder that is exchanged while a file is being made in
it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import NamedTuple

from kernelkb.errors import ForbiddenPathError
from kernelkb.safety.paths import shipped_folder

StrPath = str | os.PathLike[str]

MAX_TEXT_BYTES = 8 * 2**20
"""No YAML, source or header that somebody wrote is longer."""
MAX_REPORT_BYTES = 2**30


class _Bounds(NamedTuple):
    user_folders: tuple[str, ...]
    shipped_folders: tuple[str, ...]
    can_write: bool


_bounds: _Bounds | None = None


def set_workspace(folders: Iterable[StrPath], *, can_write: bool = True) -> None:
    """Keep this process to some folders, besides the data that ships with KernelKB.

    Args:
        folders: The user's; a whole file system is none and left out.
        can_write: Whether anything may be written in them.
    """
    global _bounds
    own = tuple(os.path.realpath(folder) for folder in folders)
    ours = tuple(os.path.realpath(shipped_folder(name)) for name in ("knowledge", "kernels"))
    _bounds = _Bounds(tuple(one for one in own if one != os.path.dirname(one)), ours, can_write)


def list_readable_folders() -> tuple[str, ...] | None:
    """Return every folder that may be read, or None where there are no bounds."""
    return None if _bounds is None else (*_bounds.user_folders, *_bounds.shipped_folders)


def may_write() -> bool:
    """Say whether the project may be written to."""
    return _bounds is None or _bounds.can_write


def resolve_inside(path: StrPath, *, to_write: bool = False) -> str:
    """Return where a path leads, links followed; it need not exist.

    Raises:
        OutsideError: It leads out of the workspace.
    """
    shown = os.fspath(path)
    if _bounds is None:
        return shown
    try:
        real = os.path.realpath(shown)
    except (ValueError, OSError) as error:  # a NUL, half a character
        raise ForbiddenPathError(shown, "no name of a file", "give the path of one") from error
    _require_inside(
        shown,
        real,
        _bounds.user_folders if to_write else (*_bounds.user_folders, *_bounds.shipped_folders),
    )
    return real


def open_inside(path: StrPath, flags: int = os.O_RDONLY) -> int:
    """Return a descriptor of a regular file of the workspace.

    Raises:
        OutsideError: It leads out of the workspace, or is a pipe, a device, or a folder.
        OSError: It is not there, or may not be opened.
    """
    if _bounds is None:
        return os.open(path, flags)
    to_write = flags & (os.O_WRONLY | os.O_RDWR) != 0
    real = resolve_inside(path, to_write=to_write)
    if not stat.S_ISREG(os.lstat(real).st_mode):
        raise _build_not_a_file_error(path)
    descriptor = os.open(real, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _build_not_a_file_error(path)
        resolve_inside(f"/proc/self/fd/{descriptor}", to_write=to_write)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_bytes(path: StrPath, max_bytes: int = MAX_TEXT_BYTES) -> bytes:
    """Return what a file holds.

    Args:
        path: The file.
        max_bytes: How long it may be where there is a workspace.

    Raises:
        OutsideError: It leads out of the workspace, is no regular file, or longer than
            ``max_bytes``.
        OSError: It is not there, or cannot be read.
    """
    with os.fdopen(open_inside(path), "rb") as file:
        body = file.read() if _bounds is None else file.read(max_bytes + 1)
    if _bounds is not None and len(body) > max_bytes:
        cure = "a server reads no more of one file"
        raise ForbiddenPathError(os.fspath(path), f"longer than {max_bytes / 2**20:g} MiB", cure)
    return body


def read_text(path: StrPath, errors: str = "strict") -> str:
    """Return what a text file holds, UTF-8, with every end of a line as a newline.

    Raises:
        OutsideError: It leads out of the workspace, is no regular file, or too long.
        OSError: It is not there, or cannot be read.
        UnicodeDecodeError: It is not UTF-8, where ``errors`` is strict.
    """
    text = read_bytes(path).decode("utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _require_inside(shown: str, real: str, allowed: Iterable[str]) -> None:
    if not any(real == root or real.startswith(f"{root}{os.sep}") for root in allowed):
        where = "" if real == shown else f" (it leads to {real})"
        cure = "start kb-mcp with --workspace DIR to allow a folder"
        raise ForbiddenPathError(shown, f"outside of the workspace{where}", cure)


def _build_not_a_file_error(path: StrPath) -> ForbiddenPathError:
    return ForbiddenPathError(
        os.fspath(path), "no regular file", "a server opens no pipes or devices"
    )
