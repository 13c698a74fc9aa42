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
from kernelkb.safety.paths import cache_folder

_MAX_EVENTS = 4000
_MAX_TEXT = 600
_KEPT_FILES = 60
_MAX_READ_BYTES = 2_000_000


class RunningCommand(NamedTuple):
    """A command that runs, or ran lately."""

    id: str
    what: str
    """Such as ``bench row_softmax``."""
    project: str
    process: int
    begun: float
    """Seconds since 1970."""
    events: tuple[dict[str, Any], ...]
    """In their order. ``at`` is the time; ``kind`` is step, waiting, notice, result or judge."""
    is_running: bool
    can_stop: bool
    end: str | None
    """``done`` or what ended it; None while it runs, and where it was killed."""

    @property
    def now(self) -> str:
        """Return what is done now, in a few words."""
        said = [one for one in self.events if one.get("kind") in ("step", "waiting")]
        return str(said[-1].get("text", "")) if said else "starting"


def running_folder() -> Path:
    """Return the folder of all running commands of this user."""
    return Path(cache_folder()) / "running"


@contextmanager
def publish_progress(project: Path, what: str, *, can_stop: bool = False) -> Iterator[None]:
    """Let other processes see what this thread does inside this block; nothing if that fails.

    Args:
        project: The project's root.
        what: Such as ``bench row_softmax``.
        can_stop: Whether SIGTERM ends this command alone, and not a server.
    """
    file = None
    with suppress(OSError):
        file = _begin({"what": what, "project": str(project), "can_stop": can_stop})
    if file is None:
        yield
        return
    count, end = 0, "done"

    def record(fields: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        if count <= _MAX_EVENTS:
            _write(file, fields)

    try:
        with event_recorder(record):
            yield
    except BaseException as error:
        end = type(error).__name__ if not isinstance(error, KeyboardInterrupt) else "interrupted"
        raise
    finally:
        _write(file, {"end": end})
        file.close()


def _begin(header: dict[str, Any]) -> IO[bytes]:
    folder = running_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for old in sorted(folder.glob("*.jsonl"))[:-_KEPT_FILES]:
        old.unlink(missing_ok=True)
    name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.jsonl"
    file = (folder / name).open("ab", buffering=0)
    fcntl.flock(file, fcntl.LOCK_EX)
    _write(file, {**header, "process": os.getpid()})
    return file


def _write(file: IO[bytes], fields: dict[str, Any]) -> None:
    cut = {k: v[:_MAX_TEXT] if isinstance(v, str) else v for k, v in fields.items()}
    with suppress(OSError, ValueError):  # a full disk, or closed: the measurement goes on
        file.write(json.dumps({"at": round(time.time(), 3), **cut}).encode() + b"\n")


def list_running(project: Path | None = None, limit: int = 20) -> list[RunningCommand]:
    """Return the newest commands, the newest first.

    Args:
        project: Only those of this project; None: of all.
        limit: Most commands to return.
    """
    found: list[RunningCommand] = []
    for path in sorted(running_folder().glob("*.jsonl"), reverse=True):
        one = _read(path)
        if one is not None and (project is None or one.project == str(project)):
            found.append(one)
        if len(found) >= limit:
            break
    return found


def find_running(name: str, project: Path) -> RunningCommand | None:
    """Return a command of a project by its id; None if there is none."""
    return next((one for one in list_running(project, _KEPT_FILES) if one.id == name), None)


def stamp_running() -> tuple[tuple[str, int], ...]:
    """Return the files and their sizes: what changes whenever there is something new."""
    found = []
    with suppress(OSError):
        with os.scandir(running_folder()) as entries:
            found = [(one.name, one.stat().st_size) for one in entries]
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
    return RunningCommand(
        path.stem,
        rows[0]["what"],
        str(rows[0].get("project", "")),
        int(rows[0].get("process", 0)),
        float(rows[0].get("at", 0.0)),
        tuple(row for row in rows[1:] if "kind" in row),
        is_running=is_running and end is None,
        can_stop=rows[0].get("can_stop") is True,
        end=end,
    )


def _is_locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False
