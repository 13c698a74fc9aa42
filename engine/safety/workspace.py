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

from kernelkb.errors import OutsideError
from kernelkb.safety.paths import shipped

StrPath = str | os.PathLike[str]

TEXT_BYTES = 8 * 2**20
"""No YAML, source or header that somebody wrote is longer."""
REPORT_BYTES = 2**30


class _Bounds(NamedTuple):
    own: tuple[str, ...]
    ours: tuple[str, ...]
    writes: bool


_bounds: _Bounds | None = None


def confine_to(folders: Iterable[StrPath], *, writes: bool = True) -> None:
    """Keep this process to some folders, besides the data that ships with KernelKB.

    Args:
        folders: The user's; a whole file system is none and left out.
        writes: Whether anything may be written in them.
    """
    global _bounds
    own = tuple(os.path.realpath(folder) for folder in folders)
    ours = tuple(os.path.realpath(shipped(name)) for name in ("knowledge", "kernels"))
    _bounds = _Bounds(tuple(one for one in own if one != os.path.dirname(one)), ours, writes)


def lift() -> None:
    """Keep this process to nothing, as it was before."""
    global _bounds
    _bounds = None


def folders() -> tuple[str, ...] | None:
    """Return every folder that may be read, or None where there are no bounds."""
    return None if _bounds is None else (*_bounds.own, *_bounds.ours)


def may_write() -> bool:
    """Say whether the project may be written to."""
    return _bounds is None or _bounds.writes


def inside(path: StrPath, *, to_write: bool = False) -> str:
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
        raise OutsideError(shown, "no name of a file", "give the path of one") from error
    _check(shown, real, _bounds.own if to_write else (*_bounds.own, *_bounds.ours))
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
    real = inside(path, to_write=to_write)
    if not stat.S_ISREG(os.lstat(real).st_mode):
        raise _no_file(path)
    descriptor = os.open(real, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _no_file(path)
        inside(f"/proc/self/fd/{descriptor}", to_write=to_write)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_bytes(path: StrPath, most: int = TEXT_BYTES) -> bytes:
    """Return what a file holds.

    Args:
        path: The file.
        most: How long it may be where there is a workspace.

    Raises:
        OutsideError: It leads out of the workspace, is no regular file, or longer than ``most``.
        OSError: It is not there, or cannot be read.
    """
    with os.fdopen(open_inside(path), "rb") as file:
        body = file.read() if _bounds is None else file.read(most + 1)
    if _bounds is not None and len(body) > most:
        cure = "a server reads no more of one file"
        raise OutsideError(os.fspath(path), f"longer than {most / 2**20:g} MiB", cure)
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


def _check(shown: str, real: str, allowed: Iterable[str]) -> None:
    if not any(real == root or real.startswith(f"{root}{os.sep}") for root in allowed):
        where = "" if real == shown else f" (it leads to {real})"
        cure = "start kb-mcp with --workspace DIR to allow a folder"
        raise OutsideError(shown, f"outside of the workspace{where}", cure)


def _no_file(path: StrPath) -> OutsideError:
    return OutsideError(os.fspath(path), "no regular file", "a server opens no pipes or devices")
