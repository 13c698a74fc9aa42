"""The folders of finished and unfinished builds, and whether a finished one is whole."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from kernelkb.errors import EnvironmentGapError
from kernelkb.measure.build.commands import LIBRARY_NAME, REPORT_NAME
from kernelkb.safety.storage import describe_write_cure
from kernelkb.safety.workspace import resolve_inside

LOG_NAME = "build.log"
SEAL_NAME = "sealed.json"
"""Size in bytes and SHA-256 of each file that a build is read from."""
_SEALED_NAMES = (LIBRARY_NAME, LOG_NAME, REPORT_NAME)
_STALE_S = 3600.0
"""Age of a folder that no running build can have: builds end after 5 minutes."""
_UNFINISHED_PREFIX = ".building-"


def make_unfinished_folder(parent: Path) -> Path:
    """Return a new folder to build in; folders that killed builders left are removed.

    Raises:
        EnvironmentGapError: The project cannot be written, or its disk is full.
    """
    resolve_inside(parent, to_write=True)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _write_gitignore(parent.parent.parent)
        _remove_stale_folders(parent)
        return Path(tempfile.mkdtemp(prefix=_UNFINISHED_PREFIX, dir=parent))
    except OSError as error:
        gap = f"{error.filename or parent} cannot be written ({error.strerror})"
        cure = describe_write_cure(error, "run in a project that you may write to")
        raise EnvironmentGapError(gap, cure) from error


def is_whole(folder: Path) -> bool:
    """Return whether a finished build has the files that the compiler wrote.

    A power cut or a full disk can leave it cut or empty, and the kernel would be blamed.
    """
    try:
        sealed = json.loads((folder / SEAL_NAME).read_text(encoding="ascii"))
        return LIBRARY_NAME in sealed and bool(sealed == _digest_files(folder))
    except (OSError, ValueError, TypeError):
        return False


def finish(unfinished: Path, final: Path) -> bool:
    """Sync a build to the disk and move it into place; return whether a whole build is there.

    A damaged build is replaced. Of two builders at once one is first; the results are the same.
    """
    seal = _digest_files(unfinished)
    (unfinished / SEAL_NAME).write_text(json.dumps(seal), encoding="ascii")
    for name in (*seal, SEAL_NAME, "."):
        _sync(unfinished / name)
    if final.is_dir() and not is_whole(final):
        with suppress(OSError):  # another builder replaced it
            final.rename(unfinished.with_name(f"{unfinished.name}-damaged"))
    with suppress(OSError):  # another builder was first
        unfinished.rename(final)
        _sync(final.parent)
    return is_whole(final)


def _digest_files(folder: Path) -> dict[str, list[int | str]]:
    found: dict[str, list[int | str]] = {}
    for name in _SEALED_NAMES:
        with suppress(FileNotFoundError), (folder / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            found[name] = [size, hashlib.file_digest(file, "sha256").hexdigest()]
    return found


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_stale_folders(parent: Path) -> None:
    """Remove the folders of killed builders, which only take up space."""
    for folder in parent.glob(f"{_UNFINISHED_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE_S:
                shutil.rmtree(folder, ignore_errors=True)


def _write_gitignore(kb_folder: Path) -> None:
    """Keep .kb out of the user's version control."""
    marker = kb_folder / ".gitignore"
    if kb_folder.name == ".kb" and not marker.exists():
        marker.write_text("*\n", encoding="utf-8")
