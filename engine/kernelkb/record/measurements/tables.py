"""Defines the tables and indexes of the database of measurements and attempts.

A *series* is all measurements of one kind of one variant on one kernel, workload, device and
target. The newest and the fastest of a series each take one index lookup for any number of
measurements. Records are only added, never changed, and their keys are computed from their
content, so no foreign keys are needed for consistency.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

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
Index("measurement_by_time", measurements.c.series, measurements.c.at, measurements.c.id)
_IS_TIMED = measurements.c.timed_us.is_not(None)
Index(
    "measurement_by_speed",
    measurements.c.series,
    measurements.c.timed_us,
    measurements.c.id,
    sqlite_where=_IS_TIMED,
    postgresql_where=_IS_TIMED,
)

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
