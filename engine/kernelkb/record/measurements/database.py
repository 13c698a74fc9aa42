"""The database of measurements, SQLite or PostgreSQL: its tables, connections and upgrades.

A *series* is all measurements of one kind of one variant on one kernel, workload, device and
target. The newest and the fastest of a series each take one index lookup for any number of
measurements. Records are only added, never changed, and their keys are computed from their
content, so no foreign keys are needed for consistency.
"""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Double,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from kernelkb.errors import (
    BadValueError,
    DatabaseError,
    EnvironmentGapError,
    NextStep,
    format_install_command,
)
from kernelkb.progress import report_progress
from kernelkb.safety.storage import describe_write_cure
from kernelkb.safety.untrusted_text import to_one_line
from kernelkb.safety.workspace import resolve_inside

# Ctrl-C may arrive while a connection is closed; the pool then logs a traceback, and raises it.
logging.getLogger("sqlalchemy.pool").addHandler(logging.NullHandler())

_WAIT_S = 60.0
_RETRY_S = 0.005
_CACHE_KIB = 256 * 1024  # holds the indexes of a million records; a smaller database uses less
_WAL_CHECKPOINT_PAGES = 8000
_WRITES_OPTION = "kb_writes"
NOTHING_RECORDED = "nothing of this was recorded"
OTHER_DATABASE_HINT = "name another database in KB_DATABASE"
_CURES = (
    (
        r"locked|busy",
        "another process writes for long; try again when it has ended",
    ),
    (
        r"disk is full|disk i/o|no space left|could not extend|file too large",
        "free some space and run it again",
    ),
    (
        r"could not decode|malformed",
        f"it is damaged; copy a backup over it, or {OTHER_DATABASE_HINT}",
    ),
    (
        r"not a database|no such table|does not exist",
        f"it is no database of measurements; move it away, or {OTHER_DATABASE_HINT}",
    ),
    (
        r"read-?only|unable to open|permission denied",
        f"run in a project that you may write to, or {OTHER_DATABASE_HINT}",
    ),
    (
        r"connection (refused|failed|is|timeout)|server closed|consuming input|terminating"
        r"|translate host|resolve host|timeout expired|no such file|starting up|shutting down"
        r"|not accepting",
        "start the server, or correct KB_DATABASE",
    ),
)
"""Regular expression of a driver's error message, and the cure; the first match counts."""

metadata = MetaData()

series = Table(
    "series",
    metadata,
    Column("key", BigInteger, primary_key=True, autoincrement=False),
    Column("kernel", Text, nullable=False),
    Column("variant", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("workload", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Index("series_by_kernel", "kernel", "workload", "device"),
)

subjects = Table(
    "subject",
    metadata,
    Column("id", Text, primary_key=True),
    Column("body", Text, nullable=False),
)

measurements = Table(
    "measurement",
    metadata,
    Column("id", Text, primary_key=True),
    Column("subject", Text, nullable=False),
    Column("series", BigInteger, nullable=False),
    # Microseconds since 1970 UTC: exact, and the same in SQLite and PostgreSQL.
    Column("at", BigInteger, nullable=False),
    # Time of one call in microseconds, if it counts for the best-known time; else null.
    Column("timed_us", Double),
    Column("body", Text, nullable=False),
    Column("samples", LargeBinary),
)
_IS_TIMED = measurements.c.timed_us.is_not(None)

promotions = Table(
    "promotion",
    metadata,
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kernel", Text, nullable=False),
    Column("body", Text, nullable=False),
)

attempts = Table(
    "attempt",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kernel", Text, nullable=False),
    Column("variant", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("parent", Text),
    Column("body", Text, nullable=False),
    Index("attempt_by_kernel", "kernel", "at", "id"),
    Index("attempt_by_parent", "parent"),
)

attempt_events = Table(
    "attempt_event",
    metadata,
    Column("id", Text, primary_key=True),
    Column("attempt", Text, nullable=False),
    Column("kernel", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    # Workload and device of a bench, and the time of one call if it counts; else null.
    Column("place", Text),
    Column("timed_us", Double),
    Column("body", Text, nullable=False),
    Index("attempt_event_by_attempt", "attempt", "at", "id"),
    Index("attempt_event_by_kind", "kind", "kernel", "at", "id"),
    Index("attempt_event_by_time", "kernel", "place", "timed_us", "id"),
    Index("attempt_event_by_origin", "kernel", "origin", "at", "id"),
)

source_files = Table(
    "source_file",
    metadata,
    Column("digest", Text, primary_key=True),
    # Compressed with zlib.
    Column("content", LargeBinary, nullable=False),
)
# Alembic, which made the first databases, named the table and its column.
revisions = Table("alembic_version", metadata, Column("version_num", Text, primary_key=True))
_MAX_CHECKED_BYTES = 32 * 2**20
"""Largest file whose pages are checked before a write, which takes 50 ms."""
REVISION = "0003"
"""Of the tables above; a database has it in ``revisions``."""
_LOCK_KEY = 7113_0001
_OLDER_REVISIONS = frozenset({"0001"})
"""Earlier revisions that can be upgraded to this one."""


def resolve_url(project: Path, url: str | None) -> URL:
    """Return the URL of the database: the given one, else SQLite in the project's ``.kb``.

    Raises:
        BadValueError: The URL is malformed, or names an unsupported database.
        EnvironmentGapError: PostgreSQL's driver is not installed.
        OutsideError: The project's file is a link that leads out of a server's workspace.
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
        cure = format_install_command("postgresql")
        raise EnvironmentGapError("PostgreSQL needs the package psycopg", cure)
    return found.set(drivername="postgresql+psycopg")


def make_engine(url: URL) -> Engine:
    """Return an engine that reads and writes; it opens no connection yet.

    One of a file is made once: who is done with it disposes of its connections, and the statements
    that it compiled are there for the next one.

    Raises:
        DatabaseError: The folder of a SQLite file cannot be created.
    """
    if url.get_backend_name() == "postgresql":
        return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
    folder = Path(url.database or "").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        cure = f"run in a project that you may write to, or {OTHER_DATABASE_HINT}"
        cure = describe_write_cure(error, cure)
        raise DatabaseError(f"cannot make {folder}: {error.strerror}; {cure}") from error
    return _make_file_engine(url) if url.database != ":memory:" else _make_sqlite_engine(url)


def _make_sqlite_engine(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _WAIT_S})
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_transaction)
    return engine


_make_file_engine = lru_cache(maxsize=4)(_make_sqlite_engine)


def make_read_only_engine(url: URL) -> Engine:
    """Return an engine that only reads and creates no file; it opens no connection yet.

    Raises:
        DatabaseError: The SQLite file does not exist.
    """
    if url.get_backend_name() == "postgresql":
        return make_engine(url)
    file = Path(url.database or "").absolute()
    if not file.is_file():
        makes_it = NextStep("show", {"id": "kernels"}, "lists what kb bench measures")
        raise DatabaseError(f"nothing was measured here: there is no {file}", makes_it)
    # No -wal file means no open connection. Without immutable=1 SQLite would create the WAL files.
    still = "" if file.with_name(f"{file.name}-wal").exists() else "&immutable=1"
    address = f"file:{quote(str(file))}?mode=ro{still}"
    return create_engine(
        url,
        creator=lambda: sqlite3.connect(
            address, timeout=_WAIT_S, uri=True, isolation_level=None, check_same_thread=False
        ),
    )


def _configure_sqlite(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    """Set the transaction mode and the pragmas of a new SQLite connection.

    synchronous=FULL: acknowledged transactions must survive a power cut; the usual NORMAL mode of a
    WAL database can lose the last few.
    """
    connection.isolation_level = None  # _begin_transaction begins transactions, not the driver
    _execute_with_retry(connection, "PRAGMA journal_mode=WAL")
    for pragma in (
        f"busy_timeout={int(_WAIT_S * 1000)}",
        "synchronous=FULL",
        f"wal_autocheckpoint={_WAL_CHECKPOINT_PAGES}",
        f"cache_size=-{_CACHE_KIB}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _execute_with_retry(connection: sqlite3.Connection, statement: str) -> None:
    """Run a statement, with retries: SQLite reports busy at once here, despite busy_timeout."""
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
    """Begin writes with BEGIN IMMEDIATE: a read transaction that writes later can fail as busy."""
    writes = connection.get_execution_options().get(_WRITES_OPTION)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def begin_read(engine: Engine) -> Iterator[Connection]:
    """Yield a connection for reading one consistent state of the database.

    Raises:
        DatabaseError: The database cannot be read.
    """
    with translate_errors(engine.url, writes=False), engine.connect() as connection:
        yield connection


@contextmanager
def begin_write(engine: Engine) -> Iterator[Connection]:
    """Yield a connection in one write transaction: all changes are committed, or none.

    Raises:
        DatabaseError: The transaction failed, and no change was committed.
    """
    with translate_errors(engine.url), engine.connect() as connection:
        writer = connection.execution_options(**{_WRITES_OPTION: True})
        with writer.begin():
            yield writer


@contextmanager
def translate_errors(url: URL, *, writes: bool = True) -> Iterator[None]:
    """Turn SQLAlchemy errors into DatabaseError, each with its cure.

    Raises:
        DatabaseError: The database failed.
    """
    try:
        yield
    except SQLAlchemyError as error:
        raise DatabaseError(_describe_failure(url, error, writes=writes)) from error


def _describe_failure(url: URL, error: SQLAlchemyError, *, writes: bool) -> str:
    origin: Any = getattr(error, "orig", None) or error
    said = (str(origin).strip().splitlines() or [type(origin).__name__])[0]
    said = said.partition(" with text ")[0]  # SQLite appends the raw bytes of a damaged row
    cures = (cure for pattern, cure in _CURES if re.search(pattern, said, re.IGNORECASE))
    cure = next(cures, "see that the database is in order")
    consequence = f"{NOTHING_RECORDED}; " if writes else ""
    return f"{describe_url(url)}: {to_one_line(said)}; {consequence}{cure}"


def describe_url(url: URL) -> str:
    """Return the URL for display, with the password hidden; for SQLite, the path of the file."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.render_as_string(hide_password=True)


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


def upgrade(engine: Engine) -> None:
    """Create the tables that are missing, and note the newest revision.

    The revision is read again under the write lock, so only one of several processes creates them.

    Raises:
        DatabaseError: The database cannot be written, or comes from a newer KernelKB.
    """
    with begin_read(engine) as connection:
        found = _read_revision(connection)
    if found == REVISION:
        return
    _refuse_newer(engine, found)
    with begin_write(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        found = _read_revision(connection)
        _refuse_newer(engine, found)
        if found != REVISION:
            metadata.create_all(connection)
            connection.execute(revisions.delete())
            connection.execute(revisions.insert().values(version_num=REVISION))


def _read_revision(connection: Connection) -> str | None:
    """Return the revision of a database; None for a new database."""
    if connection.dialect.name == "sqlite":  # without the inspector, which takes 1 ms
        query = "SELECT 1 FROM sqlite_master WHERE name = ?"
        is_known = connection.exec_driver_sql(query, (revisions.name,)).first() is not None
    else:
        is_known = inspect(connection).has_table(revisions.name)
    if not is_known:
        return None
    return connection.scalar(select(revisions.c.version_num))


def _refuse_newer(engine: Engine, found: str | None) -> None:
    if found is not None and found != REVISION and found not in _OLDER_REVISIONS:
        raise DatabaseError(
            f"{describe_url(engine.url)} has revision {found}, and this KernelKB knows up to "
            f"{REVISION}; update KernelKB, or name another database in KB_DATABASE"
        )


def insert_new(
    connection: Connection, table: Table, rows: Iterable[dict[str, Any]], *keys: str
) -> int:
    """Insert the rows with a new key; return their number.

    Rows are inserted in key order: two writers with different orders could deadlock, and
    neighbours in a batch share pages of the index.
    """
    distinct = {tuple(row[key] for key in keys): row for row in rows}
    if not distinct:
        return 0
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    insert = dialect.insert(table)
    ordered = [distinct[key] for key in sorted(distinct)]
    insert = insert.on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    return connection.execute(insert, ordered).rowcount


Index("measurement_by_time", measurements.c.series, measurements.c.at, measurements.c.id)


Index(
    "measurement_by_speed",
    measurements.c.series,
    measurements.c.timed_us,
    measurements.c.id,
    sqlite_where=_IS_TIMED,
    postgresql_where=_IS_TIMED,
)
