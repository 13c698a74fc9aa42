"""Restricts a server's file access to its workspace folders and the shipped data.

A server sets the folders once, when it starts. The command line sets none: then each function
here does what its counterpart of the standard library does.

A path is resolved, opened with O_NOFOLLOW and O_NONBLOCK, and the descriptor's path is checked
again, so exchanging a link in between gains nothing. Two gaps remain: a compiler or interpreter
opens a source by name again (compilers run in a sandbox, ``measure.process.compiler_sandbox``), and
a folder can be exchanged while a file is created in it.
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
"""Largest YAML, source or header file that a server reads."""
MAX_REPORT_BYTES = 2**30
"""Largest profiler report that a server reads."""


class _Bounds(NamedTuple):
    user_folders: tuple[str, ...]
    shipped_folders: tuple[str, ...]
    can_write: bool


_bounds: _Bounds | None = None


def set_workspace(folders: Iterable[StrPath], *, can_write: bool = True) -> None:
    """Restrict this process to some folders and the data that ships with KernelKB.

    Args:
        folders: The user's folders; the root of the file system is left out.
        can_write: Whether files in them may be written.
    """
    global _bounds
    own = tuple(os.path.realpath(folder) for folder in folders)
    shipped = tuple(os.path.realpath(shipped_folder(name)) for name in ("knowledge", "kernels"))
    user = tuple(folder for folder in own if folder != os.path.dirname(folder))
    _bounds = _Bounds(user, shipped, can_write)


def list_readable_folders() -> tuple[str, ...] | None:
    """Return every folder that may be read; None without a workspace."""
    return None if _bounds is None else (*_bounds.user_folders, *_bounds.shipped_folders)


def may_write() -> bool:
    """Whether files of the project may be written."""
    return _bounds is None or _bounds.can_write


def resolve_inside(path: StrPath, *, to_write: bool = False) -> str:
    """Return the real path, links followed; it need not exist. Unchanged without a workspace.

    Raises:
        ForbiddenPathError: The path leads out of the workspace.
    """
    shown = os.fspath(path)
    if _bounds is None:
        return shown
    try:
        real = os.path.realpath(shown)
    except (ValueError, OSError) as error:  # a NUL byte, half a surrogate pair
        raise ForbiddenPathError(shown, "not a valid path", "give the path of a file") from error
    _require_inside(
        shown,
        real,
        _bounds.user_folders if to_write else (*_bounds.user_folders, *_bounds.shipped_folders),
    )
    return real


def open_inside(path: StrPath, flags: int = os.O_RDONLY) -> int:
    """Return a file descriptor of a regular file in the workspace.

    Raises:
        ForbiddenPathError: The path leads out of the workspace, or to a pipe, device or folder.
        OSError: The file does not exist, or may not be opened.
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
    """Return a file's content.

    Args:
        path: The file.
        max_bytes: The longest file to read where there is a workspace.

    Raises:
        ForbiddenPathError: The path leads out of the workspace, is not a regular file, or is
            longer than ``max_bytes``.
        OSError: The file does not exist, or cannot be read.
    """
    with os.fdopen(open_inside(path), "rb") as file:
        body = file.read() if _bounds is None else file.read(max_bytes + 1)
    if _bounds is not None and len(body) > max_bytes:
        cure = "a server reads no longer file"
        raise ForbiddenPathError(os.fspath(path), f"longer than {max_bytes / 2**20:g} MiB", cure)
    return body


def read_text(path: StrPath, errors: str = "strict") -> str:
    """Return the text of a UTF-8 file, with one newline at the end of every line.

    Raises:
        ForbiddenPathError: The path leads out of the workspace, is not a regular file, or is
            longer than MAX_TEXT_BYTES.
        OSError: The file does not exist, or cannot be read.
        UnicodeDecodeError: It is not UTF-8, and ``errors`` is strict.
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
        os.fspath(path), "not a regular file", "a server opens no pipes or devices"
    )
