"""Keeps the trials of a search in a file of one line each, so that a killed search goes on."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kernelkb.errors import BadValueError, KbError
from kernelkb.model.kernels.tuning import TuningTrial
from kernelkb.safety.storage import describe_write_cure


def name_journal(folder: Path, title: str, identity: Mapping[str, str]) -> Path:
    """Return the file for trials that may be compared: the same source, device and versions.

    Args:
        folder: Of all journals.
        title: Readable beginning of the name.
        identity: Everything that makes times comparable, by name.
    """
    text = json.dumps(dict(sorted(identity.items())))
    return folder / f"{title}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.jsonl"


class TuningJournal:
    """The trials of one search, in the order in which they ended."""

    def __init__(self, path: Path, file: IO[bytes], trials: list[TuningTrial]) -> None:
        self.path = path
        self.trials = trials
        self._file = file

    def add(self, trial: TuningTrial) -> None:
        """Append a trial; it is on the disk when this returns.

        Raises:
            KbError: It cannot be written, for a full disk.
        """
        line = trial.model_dump_json(exclude_defaults=True).encode() + b"\n"
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            os.ftruncate(self._file.fileno(), end)
            cure = describe_write_cure(error, "make it writable")
            raise KbError(
                f"{self.path.name} cannot be written: {error.strerror}; {cure}"
            ) from error
        self.trials.append(trial)


@contextmanager
def open_journal(path: Path, identity: Mapping[str, str]) -> Iterator[TuningJournal]:
    """Open a journal for one writer, and read what it holds; a torn last line is removed.

    Args:
        path: Of ``name_journal``.
        identity: Written as the first line of a new journal.

    Raises:
        BadValueError: Another search writes to it.
        KbError: It cannot be opened.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b", buffering=0)
    except OSError as error:
        cure = describe_write_cure(error, "make it writable")
        raise KbError(f"{path} cannot be opened: {error.strerror}; {cure}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadValueError(
                f"another kb tune searches the same space ({path.name}); wait for it"
            ) from error
        file.seek(0)
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.ftruncate(file.fileno(), len(whole))
        if not whole:
            file.write(json.dumps({"identity": dict(identity)}).encode() + b"\n")
        yield TuningJournal(path, file, _parse_trials(whole))


def read_journal(path: Path) -> list[TuningTrial]:
    """Return the trials of a journal that nothing is written to now.

    Raises:
        KbError: It cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise KbError(f"{path} cannot be read: {error.strerror}") from error
    return _parse_trials(content[: content.rfind(b"\n") + 1])


def _parse_trials(content: bytes) -> list[TuningTrial]:
    """Return the trials; a line that a damaged disk left is left out, its trial is repeated."""
    trials = []
    for line in content.splitlines()[1:]:
        try:
            trials.append(TuningTrial.model_validate_json(line))
        except ValueError:
            continue
    return trials
