"""What a SQLite file must be before it is opened or written: regular, not empty, whole."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, Engine

from kernelkb.errors import DatabaseError
from kernelkb.progress import report_progress
from kernelkb.record.measurements.connections import (
    NOTHING_RECORDED,
    OTHER_DATABASE_HINT,
    begin_read,
    describe_url,
)
from kernelkb.safety.untrusted_text import to_one_line

_MAX_CHECKED_BYTES = 32 * 2**20
"""Largest file whose pages are checked before a write, which takes 50 ms."""


def check_file(url: URL, *, writes: bool) -> None:
    """Look at a database before it is opened; a new SQLite file and PostgreSQL pass.

    Args:
        url: The database.
        writes: Whether records will be added: then an empty file begins anew, and a notice of
            progress says so.

    Raises:
        DatabaseError: It is a pipe or a device, at which SQLite would wait or which it would
            write to; or it is empty, which SQLite leaves no file, and is only to be read.
    """
    file = Path(url.database or "")
    if url.get_backend_name() != "sqlite" or not file.exists():
        return
    if not file.is_file():
        raise DatabaseError(f"{file} is not a regular file; move it away, or {OTHER_DATABASE_HINT}")
    if file.stat().st_size:
        return
    if not writes:
        raise DatabaseError(
            f"{file} was empty, as after a crash of the system: nothing is recorded in it; copy a "
            f"backup over it, or delete it to begin anew"
        )
    report_progress(f"{file} was empty: what it held is gone; it begins anew", "notice")


def check_pages(engine: Engine) -> None:
    """Refuse to write to a damaged SQLite file; a large one is not looked at.

    Raises:
        DatabaseError: SQLite finds damage.
    """
    url = engine.url
    file = Path(url.database or "")
    if url.get_backend_name() != "sqlite" or file.stat().st_size > _MAX_CHECKED_BYTES:
        return
    with begin_read(engine) as connection:
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if found != "ok":
        raise DatabaseError(
            f"{describe_url(url)}: {to_one_line(str(found))}; {NOTHING_RECORDED}; it is damaged; "
            f"copy a backup over it, or {OTHER_DATABASE_HINT}"
        )
