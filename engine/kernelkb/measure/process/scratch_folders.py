"""Folders for the files of one job, which are removed in any case."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SCRATCH_FOLDERS: set[str] = set()
_REMOVAL_TIMEOUT_S = 2.0


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a new folder for one job's files; it is removed afterwards in any case."""
    with remove_afterwards(Path(tempfile.mkdtemp(prefix="kernelkb-"))) as folder:
        yield folder


@contextmanager
def remove_afterwards(folder: Path) -> Iterator[Path]:
    """Yield an existing folder; it is removed after this block or when this process ends."""
    _SCRATCH_FOLDERS.add(str(folder))
    try:
        yield folder
    finally:
        remove_tree(folder)
        _SCRATCH_FOLDERS.discard(str(folder))  # not before: ending this process waits for it


def remove_tree(folder: str | Path) -> None:
    """Remove a folder with its contents, at any depth.

    Before Python 3.13 ``shutil.rmtree`` recurses, and a candidate may nest folders deeper than
    the recursion limit.
    """
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", str(folder)], check=False)


def remove_scratch_folders() -> None:
    """Remove every scratch folder, before this process ends.

    A cancelled thread may be removing the same folder, and each may then fail on a file that the
    other removed: so it is tried until the folder is gone, for 2 seconds.
    """
    end = time.monotonic() + _REMOVAL_TIMEOUT_S
    for name in tuple(_SCRATCH_FOLDERS):
        remove_tree(name)
        while os.path.lexists(name) and time.monotonic() < end:
            time.sleep(0.01)
            remove_tree(name)
