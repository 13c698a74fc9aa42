"""Accepted reviews on disk: a file of the project's knowledge, and an entry of its session."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernelkb.errors import SessionError
from kernelkb.model.review import AcceptedReview
from kernelkb.model.session import SessionEntry
from kernelkb.record import sessions
from kernelkb.record.atomic_append import lock_for_append
from kernelkb.record.review_form import format_yaml
from kernelkb.record.session_text import format_entry

REVIEW_VERB = "review"
"""What an entry says of the verb that logged it."""

_TEMP_SUFFIX = ".new"
"""Ends the name of a file that is being written: not .yaml, so nobody loads it."""

_FILE_HEADER = """\
# Written by kb session accept from sessions/reviews/{0}.md; edit that, and accept it again.
# kb session accept {0} --undo takes it away.
"""


def read_session_entries(name: str, folder: Path) -> tuple[str, tuple[SessionEntry, ...]]:
    """Return a session's id and its entries. All that is read of sessions here comes from here.

    Args:
        name: A session's id, or ``last``.
        folder: The project's ``sessions/``.
    """
    found = sessions.read_session(name, folder)
    return found.session, found.entries


def form_path(session: str, folder: Path) -> Path:
    """Return where the form of a session stands."""
    return folder / "reviews" / f"{session}.md"


def review_relative_path(session: str) -> str:
    """Return where an accepted review stands in a knowledge folder."""
    return f"reviews/{session}.yaml"


@contextmanager
def lock_reviews(knowledge: Path) -> Iterator[None]:
    """Keep other reviews out of a knowledge folder, which is there as long as it holds something.

    Raises:
        SessionError: The folder cannot be written.
    """
    try:
        knowledge.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(knowledge, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _make_write_error(knowledge, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # the kernel lets go of it, however we end
        for torn in (knowledge / "reviews").glob(
            f".*{_TEMP_SUFFIX}"
        ):  # whoever began it was killed
            torn.unlink(missing_ok=True)
        yield
    finally:
        for folder in (knowledge / "reviews", knowledge):
            with suppress(OSError):  # something is in it
                folder.rmdir()
        os.close(descriptor)


def write_file(path: Path, text: str) -> None:
    """Write a whole file, so that one who is killed leaves the old one or the new one.

    Raises:
        SessionError: It cannot be written.
    """
    new = path.with_name(f".{path.name}{_TEMP_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise _make_write_error(path, error) from error


def write_review(review: AcceptedReview, knowledge: Path) -> Path:
    """Make a review part of a knowledge folder. Call it while the folder is held."""
    plain = review.model_dump(mode="json", by_alias=True, exclude_none=True)
    path = knowledge / review_relative_path(review.session)
    write_file(path, _FILE_HEADER.format(review.session) + format_yaml(plain))
    return path


def remove_review(session: str, knowledge: Path) -> None:
    """Take a review out of a knowledge folder. Call it while the folder is held.

    Raises:
        SessionError: The folder cannot be written.
    """
    path = knowledge / review_relative_path(session)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _make_write_error(path, error) from error


def append_review_entry(entry: SessionEntry, folder: Path) -> None:
    """Let a session say that it was reviewed, once.

    Raises:
        SessionError: The session cannot be written.
    """
    _, entries = read_session_entries(entry.session, folder)
    found = [(one.goal, one.reviews) for one in entries if one.by == REVIEW_VERB]
    if found == [(entry.goal, entry.reviews)]:
        return
    remove_review_entry(entry.session, folder)
    sessions.append_entry(entry, folder)


def remove_review_entry(session: str, folder: Path) -> None:
    """Take the word of a review out of a session's file; all else stays byte for byte.

    Raises:
        SessionError: The session cannot be written, or was edited where the review stands.
    """
    for entry in read_session_entries(session, folder)[1]:
        if entry.by == REVIEW_VERB:
            _remove_bytes(format_entry(entry).encode(), sessions.session_path(session, folder))


def _remove_bytes(part: bytes, path: Path) -> None:
    try:
        with lock_for_append(path) as descriptor:
            body = path.read_bytes()
            place = body.rfind(part)
            if place < 0:
                raise SessionError(f"{path} was edited where its review stands; mend it by hand")
            if place + len(part) == len(body):
                os.ftruncate(descriptor, place)
            else:  # somebody has logged since: the file as it stands, or the new one
                write_file(path, (body[:place] + body[place + len(part) :]).decode())
    except OSError as error:
        raise _make_write_error(path, error) from error


def _make_write_error(path: Path, error: OSError) -> SessionError:
    return SessionError(
        f"cannot write {path}: {error.strerror}; run in a project that you may write to"
    )
