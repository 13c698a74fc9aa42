"""Session files: one YAML document for each entry, appended whole."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

import yaml

from engine.errors import SessionError, UnknownNameError
from engine.model.session import Entry


def session_id(kernel: str | None, day: date | None = None) -> str:
    """Return the id of a day's session with a kernel; sorts by day."""
    return f"{day or datetime.now(UTC).date()}-{kernel or 'notes'}"


def append(entry: Entry, folder: Path) -> Path:
    """Append one entry to its session's file and return the file.

    The document is written by a single call under a lock, so that two writers never mix and a
    killed one leaves either all of it or nothing.

    Raises:
        SessionError: The folder cannot be written.
    """
    path = file_of(entry.session, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(path) as descriptor:
            _write_whole(descriptor, text_of(entry).encode())
    except OSError as error:
        raise SessionError(
            f"cannot write {path}: {error.strerror}; run in a project that you may write to"
        ) from error
    return path


def file_of(session: str, folder: Path) -> Path:
    """Return where a session stands."""
    return folder / f"{session}.yaml"


def text_of(entry: Entry) -> str:
    """Return what is appended for an entry."""
    return f"---\n{_dumped(entry)}"


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Yield a descriptor that appends to a file, while nobody else writes to it."""
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)  # and once more, when it was replaced while we waited


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _dumped(entry: Entry) -> str:
    """Return one YAML document that reads back as the entry, whatever its texts hold."""
    plain = entry.model_dump(mode="json", exclude_defaults=True)
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
    # The dumper writes these line breaks as they are, and the loader folds them into spaces.
    if any(mark in text for mark in "\x85\u2028\u2029"):
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=False, width=100)
    return text


def _write_whole(descriptor: int, body: bytes) -> None:
    before = os.fstat(descriptor).st_size
    if os.write(descriptor, body) != len(body):
        os.ftruncate(descriptor, before)  # a full disk: leave no half of an entry
        raise OSError(28, "no space left")


def sessions(folder: Path) -> list[str]:
    """Return the ids of all sessions in a folder, oldest first."""
    return sorted(path.stem for path in folder.glob("*.yaml") if path.exists())


def read(name: str, folder: Path) -> list[Entry]:
    """Return the entries of one session, in the order they were appended.

    Args:
        name: A session's id, or ``last``.
        folder: The project's ``sessions/``.

    Raises:
        UnknownNameError: There is no such session.
        SessionError: The file holds something else.
    """
    known = sessions(folder)
    if name == "last" and known:
        name = max(known, key=lambda one: (folder / f"{one}.yaml").stat().st_mtime_ns)
    if name not in known:
        raise UnknownNameError("session", name, known, "kb session list")
    path = folder / f"{name}.yaml"
    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        return [Entry.model_validate(document) for document in documents if document]
    except (OSError, yaml.YAMLError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise SessionError(f"{path} is not a session record: {first}; mend it by hand") from error
