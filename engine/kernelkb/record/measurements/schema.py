"""Creates or upgrades the tables of a database; safe when several processes do so at once."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from kernelkb.errors import DatabaseError
from kernelkb.record.measurements.connections import begin_read, begin_write, describe_url

REVISION = "0003"
"""The newest revision. A database at this revision does not load alembic, which takes 0.1 s."""
_LOCK_KEY = 7113_0001
_OLDER_REVISIONS = frozenset({"0001", "0002"})
"""Earlier revisions that can be upgraded to this one."""


def upgrade(engine: Engine) -> None:
    """Create the tables, or upgrade them to the newest revision.

    The revision is read again under the write lock, so only one of several processes migrates.

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
            _run_migrations(connection)


def _read_revision(connection: Connection) -> str | None:
    """Return the revision of a database; None for a new database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def _refuse_newer(engine: Engine, found: str | None) -> None:
    if found is not None and found != REVISION and found not in _OLDER_REVISIONS:
        raise DatabaseError(
            f"{describe_url(engine.url)} has revision {found}, and this KernelKB knows up to "
            f"{REVISION}; update KernelKB, or name another database in KB_DATABASE"
        )


def _run_migrations(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
