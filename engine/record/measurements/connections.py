"""Connections to SQLite and PostgreSQL, and what their failures mean."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from kernelkb.errors import BadValueError, DatabaseError, EnvironmentGapError, NextStep
from kernelkb.safety.workspace import resolve_inside

_WAIT_S = 60.0
_RETRY_S = 0.005
_CACHE_KIB = 256 * 1024  # the indexes of a million; a small database takes what it is large
_WAL_CHECKPOINT_PAGES = 8000
_WRITES_OPTION = "kb_writes"
_NOTHING_RECORDED = "nothing of this was recorded"
_OTHER_DATABASE_HINT = "name another database in KB_DATABASE"
_CURES = (
    (
        r"locked|busy",
        f"{_NOTHING_RECORDED}: another process writes for long; try again when it has ended",
    ),
    (
        r"disk is full|disk i/o|no space left|could not extend|file too large",
        f"{_NOTHING_RECORDED}; free some space and run it again",
    ),
    (
        r"not a database|malformed|no such table|does not exist",
        f"it is no database of measurements; move it away, or {_OTHER_DATABASE_HINT}",
    ),
    (
        r"read-?only|unable to open|permission denied",
        f"run in a project that you may write to, or {_OTHER_DATABASE_HINT}",
    ),
    (
        r"connection (refused|failed|is|timeout)|server closed|consuming input|terminating"
        r"|translate host|resolve host|timeout expired|no such file|starting up|shutting down"
        r"|not accepting",
        f"{_NOTHING_RECORDED}; start the server, or correct KB_DATABASE",
    ),
)
"""By what a database says, the first that matches."""


def resolve_url(project: Path, url: str | None) -> URL:
    """Return the address of the database: the given one, else SQLite in the project's ``.kb``.

    Raises:
        BadValueError: It is no address, or of a database that we do not speak.
        EnvironmentGapError: PostgreSQL's driver is not installed.
        OutsideError: The project's file is a link out of a server's workspace.
    """
    if not url:
        file = resolve_inside(project / ".kb" / "measurements.db")
        return URL.create("sqlite+pysqlite", database=file)
    known = "write sqlite:///FILE or postgresql://USER@HOST/NAME in KB_DATABASE"
    try:
        found = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise BadValueError(f"this is not the address of a database; {known}") from error
    kind = found.drivername.partition("+")[0]
    if kind == "sqlite" and found.database:
        return found.set(drivername="sqlite+pysqlite")
    if kind not in ("postgresql", "postgres"):
        raise BadValueError(f"measurements cannot be kept in {found.drivername!r}; {known}")
    if find_spec("psycopg") is None:
        cure = "pip install 'kernelkb[postgresql]'"
        raise EnvironmentGapError("PostgreSQL needs the package psycopg", cure)
    return found.set(drivername="postgresql+psycopg")


def make_engine(url: URL) -> Engine:
    """Return an engine; nothing is opened yet.

    Raises:
        DatabaseError: The folder of a SQLite file cannot be made.
    """
    if url.get_backend_name() == "postgresql":
        return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
    folder = Path(url.database or "").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(
            f"cannot make {folder}: {error.strerror}; run in a project that you may write to, or "
            f"{_OTHER_DATABASE_HINT}"
        ) from error
    engine = create_engine(url, connect_args={"timeout": _WAIT_S})
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_transaction)
    return engine


def make_read_only_engine(url: URL) -> Engine:
    """Return an engine that can only read, and makes no file; nothing is opened yet.

    Raises:
        DatabaseError: There is no such SQLite file.
    """
    if url.get_backend_name() == "postgresql":
        return make_engine(url)
    file = Path(url.database or "").absolute()
    if not file.is_file():
        makes_it = NextStep("bench", {"kernel": None}, "makes it")
        raise DatabaseError(f"nothing was measured here: there is no {file}", makes_it)
    # Without a log nobody has it open; SQLite would make a log and its index, were it not told so.
    still = "" if file.with_name(f"{file.name}-wal").exists() else "&immutable=1"
    address = f"file:{quote(str(file))}?mode=ro{still}"
    return create_engine(
        url,
        creator=lambda: sqlite3.connect(
            address, timeout=_WAIT_S, uri=True, isolation_level=None, check_same_thread=False
        ),
    )


def _configure_sqlite(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    """Set a SQLite connection up.

    synchronous=FULL: after a power cut, what was acknowledged must be there, and the default of a
    WAL gives that up for the last few transactions.
    """
    connection.isolation_level = None  # the driver begins nothing by itself; see _begin
    _execute_with_retry(connection, "PRAGMA journal_mode=WAL")
    for pragma in (
        f"busy_timeout={int(_WAIT_S * 1000)}",
        "synchronous=FULL",
        f"wal_autocheckpoint={_WAL_CHECKPOINT_PAGES}",
        f"cache_size=-{_CACHE_KIB}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _execute_with_retry(connection: sqlite3.Connection, statement: str) -> None:
    """Run what SQLite refuses at once where another connection does the same, timeout or not."""
    end = time.monotonic() + _WAIT_S
    while True:
        try:
            connection.execute(statement).close()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_RETRY_S)


def _begin_transaction(connection: Connection) -> None:
    """Begin as a writer where it will write: a reader that turns writer late may have to fail."""
    writes = connection.get_execution_options().get(_WRITES_OPTION)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def begin_read(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that sees one state of the database.

    Raises:
        DatabaseError: It cannot be read.
    """
    with translate_errors(engine.url), engine.connect() as connection:
        yield connection


@contextmanager
def begin_write(engine: Engine) -> Iterator[Connection]:
    """Yield a connection whose changes are all there when the block is left, or none of them.

    Raises:
        DatabaseError: They are not.
    """
    with translate_errors(engine.url), engine.connect() as connection:
        writer = connection.execution_options(**{_WRITES_OPTION: True})
        with writer.begin():
            yield writer


@contextmanager
def translate_errors(url: URL) -> Iterator[None]:
    """Turn the failures of a database into ours, each with its cure.

    Raises:
        DatabaseError: The database failed.
    """
    try:
        yield
    except SQLAlchemyError as error:
        raise DatabaseError(_describe_failure(url, error)) from error


def _describe_failure(url: URL, error: SQLAlchemyError) -> str:
    origin: Any = getattr(error, "orig", None) or error
    said = (str(origin).strip().splitlines() or [type(origin).__name__])[0]
    cures = (cure for pattern, cure in _CURES if re.search(pattern, said, re.IGNORECASE))
    cure = next(cures, f"{_NOTHING_RECORDED}; see that the database is in order")
    return f"{describe_url(url)}: {said}; {cure}"


def describe_url(url: URL) -> str:
    """Return the address as people may see it: without the password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.render_as_string(hide_password=True)
