"""Bring a database to the revision that this code knows, whoever else opens it meanwhile."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from kernelkb.errors import DatabaseError
from kernelkb.record.measurements.connections import begin_read, begin_write, describe_url

REVISION = "0001"
"""The newest one; alembic, which costs 0.1 s, is only loaded where a database has another."""
_LOCK_KEY = 7113_0001
_OLDER_REVISIONS = frozenset[str]()
"""Revisions before this one, from which an upgrade leads here."""


def upgrade(engine: Engine) -> None:
    """Make the tables, or bring them up to date.

    The lock is taken before the revision is read again, so of several processes one does the work.

    Raises:
        DatabaseError: It cannot be written, or comes from a newer KernelKB.
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
            _run_migrations(connection)


def _read_revision(connection: Connection) -> str | None:
    """Return a database's revision; None where it is new."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def _refuse_newer(engine: Engine, found: str | None) -> None:
    if found is not None and found != REVISION and found not in _OLDER_REVISIONS:
        raise DatabaseError(
            f"{describe_url(engine.url)} has revision {found}, and this KernelKB knows up to "
            f"{REVISION}; pip install --upgrade kernelkb, or name another database in KB_DATABASE"
        )


def _run_migrations(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
