"""What runs now, as other processes see it: one small file for each running command.

The command itself writes a line where a step begins or ends, which takes some microseconds and is
never in the middle of a timing. It holds a lock on its file while it runs, so a file without a
lock and without an end is that of a process that was killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from kernelkb.progress import event_recorder

_MARKS = (".kb", "kernels", "sessions")
"""Folders of which a project has one; nothing is written elsewhere."""
_MAX_EVENTS = 4000
_MAX_TEXT = 600
KEPT_FILES = 60
_MAX_READ_BYTES = 2_000_000


class RunningCommand(NamedTuple):
    """A command that runs, or ran lately."""

    id: str
    what: str
    """Such as ``bench row_softmax``."""
    process: int
    begun: float
    """Seconds since 1970."""
    events: tuple[dict[str, Any], ...]
    """In their order. ``at`` is the time; ``kind``: step, waiting, notice, result, judge or gpu."""
    is_running: bool
    can_stop: bool
    end: str | None
    """``done`` or what ended it; None while it runs, and where it was killed."""
    told: float
    """When it wrote last, in seconds since 1970."""


def running_folder(project: Path) -> Path:
    """Return the folder of the running commands of a project; no candidate may read it."""
    return project / ".kb" / "running"


@contextmanager
def publish_progress(project: Path, what: str, *, can_stop: bool = False) -> Iterator[None]:
    """Let other processes see what this thread does inside this block; nothing if that fails.

    The file is made by the first step, and goes again where none ended: a command that is refused
    leaves nothing.

    Args:
        project: The project's root.
        what: Such as ``bench row_softmax``.
        can_stop: Whether SIGTERM ends this command alone, and not a server.
    """
    files: list[IO[bytes] | None] = []
    count, end, has_result = 0, "done", False

    def record(fields: dict[str, Any]) -> None:
        nonlocal count, has_result
        count += 1
        has_result = has_result or fields.get("kind") == "result"
        if not files:
            files.append(_begin(project, {"what": what, "can_stop": can_stop}))
        if files[0] is not None and count <= _MAX_EVENTS:
            _write(files[0], fields)

    try:
        with event_recorder(record):
            yield
    except BaseException as error:
        end = type(error).__name__ if not isinstance(error, KeyboardInterrupt) else "interrupted"
        raise
    finally:
        if files and files[0] is not None:
            _write(files[0], {"end": end})
            files[0].close()
            if end != "done" and not has_result:
                _remove(Path(files[0].name))


def _remove(file: Path) -> None:
    """Remove a file, and the folders above it if they are empty: this command made them."""
    with suppress(OSError):
        file.unlink()
        file.parent.rmdir()
        file.parent.parent.rmdir()


def _begin(project: Path, header: dict[str, Any]) -> IO[bytes] | None:
    """Return the file of a command, locked; None outside of a project, and where none can be."""
    if not any((project / mark).is_dir() for mark in _MARKS):
        return None
    folder = running_folder(project)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in sorted(folder.glob("*.jsonl"))[:-KEPT_FILES]:
            old.unlink(missing_ok=True)
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.jsonl"
        file = (folder / name).open("ab", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        return None
    _write(file, {**header, "process": os.getpid()})
    return file


def _write(file: IO[bytes], fields: dict[str, Any]) -> None:
    cut = {k: v[:_MAX_TEXT] if isinstance(v, str) else v for k, v in fields.items()}
    with suppress(OSError, ValueError):  # a full disk, or closed: the measurement goes on
        file.write(json.dumps({"at": round(time.time(), 3), **cut}).encode() + b"\n")


def list_running(project: Path, limit: int = 20) -> list[RunningCommand]:
    """Return the newest commands of a project, the newest first."""
    paths = sorted(running_folder(project).glob("*.jsonl"), reverse=True)[:limit]
    return [one for one in map(_read, paths) if one is not None]


def stamp_files(folder: Path) -> tuple[tuple[str, int, float], ...]:
    """Return the files of a folder, their sizes and ages: other where there is something new."""
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for one in entries:
            seen = one.stat()
            found.append((one.name, seen.st_size, seen.st_mtime))
    return tuple(sorted(found))


def _read(path: Path) -> RunningCommand | None:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_READ_BYTES)
            is_running = _is_locked(file)
    except OSError:
        return None
    rows = []
    for line in content.splitlines():
        with suppress(ValueError):  # cut off by a full disk
            row = json.loads(line)
            rows += [row] if isinstance(row, dict) else []
    if not rows or not isinstance(rows[0].get("what"), str):
        return None
    end = next((str(row["end"]) for row in rows if "end" in row), None)
    numbers = [rows[0].get("process"), rows[0].get("at"), rows[-1].get("at")]
    process, begun, told = (one if isinstance(one, int | float) else 0 for one in numbers)
    return RunningCommand(
        path.stem,
        rows[0]["what"],
        int(process),
        float(begun),
        tuple(row for row in rows[1:] if "kind" in row),
        is_running=is_running and end is None,
        can_stop=rows[0].get("can_stop") is True,
        end=end,
        told=float(told),
    )


def _is_locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False
