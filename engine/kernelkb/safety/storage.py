"""Words for failures of storage: a full disk, a quota, a read-only or failing file system."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from kernelkb.errors import EnvironmentGapError
from kernelkb.safety.paths import cache_folder, project_root

_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_OTHER_CURES = {
    errno.EFBIG: "raise the limit on file sizes (ulimit -f)",
    errno.EROFS: "run in a project that you may write to",
    errno.EACCES: "run in a project that you may read and write",
    errno.EPERM: "run in a project that you may read and write",
    errno.EIO: "the disk fails; see the system's log",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.ENAMETOOLONG: "give a shorter path",
    errno.ELOOP: "remove the link that leads to itself",
}
_LEAST_FREE_BYTES = 2**20
"""A file system with less is full: a build or a bench needs more."""


def find_storage_gap(error: OSError) -> EnvironmentGapError | None:
    """Return the error that says in one line, with a cure, why a file failed.

    Front ends call it for what no handler expected. None for an OSError of another kind.
    """
    gap = describe_storage_error(error)
    return None if gap is None else EnvironmentGapError(*gap)


def describe_storage_error(error: OSError) -> tuple[str, str] | None:
    """Return what happened and the cure; None for an error that is not about storage."""
    said = (error.strerror or str(error)).lower()
    if error.errno in _FULL_ERRNOS:
        what = f"{os.fsdecode(error.filename)}: {said}" if error.filename else said
        return what, describe_write_cure(error, "")
    if error.errno == errno.ENOENT and "No usable temporary directory" in str(error):
        return "no folder for temporary files can be written", free_space_cure()
    cure = _OTHER_CURES.get(error.errno or 0)
    if cure is None:
        return None
    return (f"{os.fsdecode(error.filename)}: {said}" if error.filename else said), cure


def describe_write_cure(error: OSError, otherwise: str) -> str:
    """Return the cure for a failed write: to free some space, or ``otherwise``."""
    if error.errno not in _FULL_ERRNOS:
        return otherwise
    named = error.filename
    return free_space_cure(os.fsdecode(named) if isinstance(named, str | bytes) else None)


def free_space_cure(file: str | None = None) -> str:
    """Return the cure for a full disk, with the folders that are on full file systems."""
    full = [folder for folder in list_used_folders(file) if is_full(folder)]
    folders = full or list_used_folders(file)[: 1 if file else None]
    return f"free some space in {' and '.join(folders)}"


def list_used_folders(file: str | None = None) -> list[str]:
    """Return the folders that are written to, one for each file system, that of ``file`` first."""
    temporary = os.environ.get("TMPDIR") or _find_temporary_folder()
    own = [str(Path(file).absolute().parent)] if file else []
    found: dict[int, str] = {}
    for name in (*own, project_root(), temporary, cache_folder()):
        folder = Path(name)
        folder = next((one for one in (folder, *folder.parents) if one.is_dir()), folder)
        with suppress(OSError):
            found.setdefault(folder.stat().st_dev, str(folder))
    return list(found.values())


def is_full(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder's file system has less than 1 MiB, or no file, left."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    no_files_left = disk.f_files > 0 and disk.f_favail == 0
    return disk.f_bavail * disk.f_frsize < _LEAST_FREE_BYTES or no_files_left


def _find_temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "/tmp"  # noqa: S108 named in a message only


def require_space(folder: str | os.PathLike[str]) -> None:
    """Raise where a file system is full; call it when a child failed that wrote there.

    Raises:
        EnvironmentGapError: It has less than 1 MiB left.
    """
    if is_full(folder):
        raise EnvironmentGapError(f"no space is left in {os.fspath(folder)}", free_space_cure())
