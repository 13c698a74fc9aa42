"""The store of measurements and promotions: adds records to the database and queries them.

The queries by series loop over the matching series and do one index lookup for each, so their cost
does not grow with the number of measurements.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL, ColumnElement, Engine, ScalarSelect, Select, and_, func, select, true

from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb.loading.digest import STABLE_AGE_NS
from kernelkb.model.records.history import Measurement, MeasurementKind, Promotion
from kernelkb.record.measurements.database import (
    begin_read,
    begin_write,
    check_file,
    check_pages,
    describe_url,
    insert_new,
    make_engine,
    make_read_only_engine,
    measurements,
    promotions,
    resolve_url,
    series,
    subjects,
    upgrade,
)
from kernelkb.record.measurements.rows import (
    is_intact,
    make_damage_error,
    measurement_row,
    parse_measurement,
    parse_promotion,
    promotion_row,
    series_row,
    subject_row,
)
from kernelkb.safety.workspace import may_write

_M, _S = measurements.c, series.c
_COLUMNS = (
    _M.id,
    _M.subject,
    _M.body,
    _M.samples,
    subjects.c.body.label("subject_body"),
)

DEFAULT_LIMIT = 50
_CHUNK_SIZE = 500
_HEX_DIGITS = frozenset("0123456789abcdef")


def open_store(project: Path, url: str | None = None, *, writes: bool = True) -> Store:
    """Open the measurements of a project; create or upgrade the tables if needed.

    Args:
        project: The project's root; its ``.kb/measurements.db`` is the default database.
        url: Another database; by default the value of the environment variable ``KB_DATABASE``.
        writes: Whether measurements will be added: then an empty file begins anew.

    Raises:
        DatabaseError: The database cannot be opened, comes from a newer KernelKB, or is empty.
        BadValueError: The URL is invalid.
        EnvironmentGapError: The driver of the database is not installed.
    """
    return Store(open_engine(project, url, writes=writes))


def open_engine(project: Path, url: str | None = None, *, writes: bool = True) -> Engine:
    """Return the database of a project, with its tables; raises as ``open_store`` does.

    A file that is only read is not made: an empty database in memory stands for it. Where nothing
    may be written, as under a read-only server or in a project of another user, it is opened
    read-only.
    """
    check_file(address := resolve_url(project, url or os.environ.get("KB_DATABASE")), writes=writes)
    is_file = address.get_backend_name() == "sqlite"
    if not writes and is_file and not Path(address.database or "").exists():
        address = URL.create("sqlite+pysqlite", database=":memory:")
    elif not writes and not (may_write() and _can_write(address, is_file=is_file)):
        return make_read_only_engine(address)
    engine = make_engine(address)
    try:
        upgrade(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _can_write(address: URL, *, is_file: bool) -> bool:
    """Whether this user may write the file, and the logs that SQLite makes beside it."""
    file = Path(address.database or "")
    return not is_file or all(os.access(one, os.W_OK) for one in (file, file.parent))


def stamp_database(project: Path) -> tuple[object, ...]:
    """Return what is another one after each write to a project's database.

    Of PostgreSQL, and of a file that was written a moment ago, it is another one at each call: two
    writes within one tick of the file system's clock have the same time.

    Raises:
        BadValueError: The URL in ``KB_DATABASE`` is invalid.
        EnvironmentGapError: The driver of the database is not installed.
    """
    url = resolve_url(project, os.environ.get("KB_DATABASE"))
    file, now = str(url.database), time.time_ns()
    found: list[object] = [file]
    for name in (file, f"{file}-wal"):
        with suppress(OSError):
            seen = os.stat(name)  # noqa: PTH116 a Path takes 20 us
            if seen.st_size:  # a reader makes an empty log, and removes it
                found.append((seen.st_ino, seen.st_size, seen.st_mtime_ns))
                is_new = now - seen.st_mtime_ns < STABLE_AGE_NS
                found += [time.monotonic_ns()] if is_new else []
    is_file = url.get_backend_name() == "sqlite"
    return tuple(found) if is_file else (time.monotonic_ns(),)


def open_read_only(project: Path) -> Store:
    """Open the measurements of a project read-only: creates, upgrades and writes nothing.

    Raises:
        DatabaseError: The database does not exist, or cannot be opened.
        BadValueError: The URL in ``KB_DATABASE`` is invalid.
        EnvironmentGapError: The driver of the database is not installed.
    """
    address = resolve_url(project, os.environ.get("KB_DATABASE"))
    check_file(address, writes=False)
    return Store(make_read_only_engine(address))


class Store:
    """Append-only database of measurements and promotions; any method may raise DatabaseError.

    Methods that return measurements return whole records with their samples.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._check_pages_once = cache(partial(check_pages, engine))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """The URL or file of the database, with the password hidden."""
        return describe_url(self._engine.url)

    def close(self) -> None:
        """Close all connections to the database."""
        self._engine.dispose()

    def add(self, added: Iterable[Measurement]) -> int:
        """Add measurements in one transaction; return the number of new ones.

        When this returns, all of them are on the disk; when it raises, none was added.

        Raises:
            DatabaseError: The measurements could not be written.
        """
        each = list(added)
        if not each:
            return 0
        about = {one.subject_id: one.subject for one in each}
        kinds = {(one.subject_id, one.kind) for one in each}
        series_of = {(key, kind): series_row(about[key], kind) for key, kind in kinds}
        rows = [measurement_row(m, series_of[m.subject_id, m.kind]["key"]) for m in each]
        self._check_pages_once()
        with begin_write(self._engine) as connection:
            insert_new(connection, series, series_of.values(), "key")
            insert_new(connection, subjects, (subject_row(*one) for one in about.items()), "id")
            return insert_new(connection, measurements, rows, "id")

    def get(self, measurement: str) -> Measurement:
        """Return one measurement by its id or a prefix of it.

        Raises:
            UnknownNameError: No id has this prefix.
            BadValueError: Several ids have this prefix.
            DatabaseError: The stored record is damaged.
        """
        found: list[str] = []
        if measurement and set(measurement) <= _HEX_DIGITS:
            found = [row["id"] for row in self._fetch_rows(select_ids_by_prefix(measurement))]
        if not found:
            raise UnknownNameError("measurement", measurement, (), "best")
        if len(found) > 1:
            several = ", ".join(found[:4])
            raise BadValueError(
                f"{measurement!r} begins the ids of several measurements, such as {several}; "
                f"write more of it"
            )
        one = self.get_many(found)[0]
        if not is_intact(one):
            raise make_damage_error(one.id)
        return one

    def history(
        self,
        kernel: str,
        variant: str | None = None,
        workload: str | None = None,
        device: str | None = None,
        *,
        target: str | None = None,
        kind: MeasurementKind | None = None,
        limit: int = DEFAULT_LIMIT,
    ) -> list[Measurement]:
        """Return the newest measurements of a kernel, at most ``limit``, newest first."""
        which = match_series(
            kernel=kernel,
            variant=variant,
            workload=workload,
            device=device,
            target=target,
            kind=kind,
        )
        with begin_read(self._engine) as connection:
            since = connection.scalar(select_oldest_needed_time(which, limit))
            ids = connection.scalars(select_newest_ids(which, since, limit)).all()
        return self.get_many(ids)

    def best(
        self,
        kernel: str | None = None,
        workload: str | None = None,
        device: str | None = None,
        *,
        target: str | None = None,
    ) -> list[Measurement]:
        """Return the fastest valid measurement of each kernel, workload, device and target.

        Incorrect or invalid measurements and times from other tools do not count.
        """
        which = match_series(kernel=kernel, workload=workload, device=device, target=target)
        first: dict[tuple[str, ...], Any] = {}
        for row in self._fetch_rows(select_fastest(which)):
            place = (row["kernel"], row["workload"], row["device"], row["target"])
            if row["us"] is not None:
                known = first.setdefault(place, row)
                first[place] = min(known, row, key=lambda one: (one["us"], one["id"]))
        return self.get_many([first[place]["id"] for place in sorted(first)])

    def latest(
        self,
        kernel: str | None = None,
        variant: str | None = None,
        workload: str | None = None,
        device: str | None = None,
        *,
        target: str | None = None,
        kind: MeasurementKind = "bench",
    ) -> list[Measurement]:
        """Return the newest measurement of each variant per kernel, workload, device and target."""
        which = match_series(
            kernel=kernel,
            variant=variant,
            workload=workload,
            device=device,
            target=target,
            kind=kind,
        )
        names = ("kernel", "workload", "device", "target", "variant")
        rows = sorted(
            self._fetch_rows(select_newest_per_series(which)),
            key=lambda r: [r[n] for n in names],
        )
        return self.get_many([row["id"] for row in rows])

    def list_newest(self) -> list[Measurement]:
        """Return the newest bench of each kernel, in the order of their names."""
        rows = self._fetch_rows(select_newest_per_series(match_series(kind="bench")))
        newest: dict[str, Any] = {}
        for row in sorted(rows, key=lambda r: (r["at"] or 0, r["id"] or "")):
            if row["id"] is not None:
                newest[row["kernel"]] = row["id"]
        return self.get_many([newest[name] for name in sorted(newest)])

    def iter_all(self) -> Iterator[Measurement]:
        """Yield all measurements in the order of their ids, each checked against its id."""
        last = ""
        while ids := [row["id"] for row in self._fetch_rows(select_next_ids(last, _CHUNK_SIZE))]:
            last = ids[-1]
            for one in self.get_many(ids):
                if not is_intact(one):
                    raise make_damage_error(one.id)
                yield one

    def count(self) -> int:
        """Return the number of measurements."""
        with begin_read(self._engine) as connection:
            return connection.scalar(select(func.count()).select_from(measurements)) or 0

    def distinct_values(self, column: str, kernel: str | None = None) -> list[str]:
        """Return the distinct values of a series column, such as ``kernel`` or ``device``."""
        found = select(series.c[column]).distinct().where(match_series(kernel=kernel))
        return sorted(row[column] for row in self._fetch_rows(found))

    def add_promotions(self, added: Iterable[Promotion]) -> int:
        """Append promotions, except numbers that their place has already; return how many."""
        rows = [promotion_row(one) for one in added]
        with begin_write(self._engine) as connection:
            return insert_new(connection, promotions, rows, "place", "number")

    def list_promotions(
        self, kernel: str | None = None, *, in_force: bool = True
    ) -> list[Promotion]:
        """Return the promotion in force of each place, or all promotions since the beginning."""
        rows = self._fetch_rows(select_promotions(kernel, latest_only=in_force))
        return [parse_promotion(row) for row in rows]

    def _fetch_rows(self, query: Select[Any]) -> Sequence[Any]:
        with begin_read(self._engine) as connection:
            return connection.execute(query).mappings().all()

    def get_many(self, ids: Sequence[str]) -> list[Measurement]:
        """Return measurements by their full ids, in the same order.

        Raises:
            DatabaseError: A measurement is missing or damaged.
        """
        rest, found = iter(ids), dict[str, Any]()
        while chunk := list(islice(rest, _CHUNK_SIZE)):
            found |= {row["id"]: row for row in self._fetch_rows(select_by_ids(chunk))}
        missing = [one for one in ids if one not in found]
        if missing:
            raise make_damage_error(missing[0])
        return [parse_measurement(found[one]) for one in ids]


def match_series(**wanted: str | None) -> ColumnElement[bool]:
    """Return the condition that each given column of a series has the given value; None: any."""
    given = {name: value for name, value in wanted.items() if value is not None}
    return and_(true(), *(_S[name] == value for name, value in given.items()))


def select_by_ids(ids: Sequence[str]) -> Select[Any]:
    """Select whole measurements with their subjects, in no particular order."""
    joined = measurements.join(subjects, subjects.c.id == _M.subject)
    return select(*_COLUMNS).select_from(joined).where(_M.id.in_(ids))


def select_ids_by_prefix(prefix: str) -> Select[Any]:
    """Select at most 9 ids that begin with a prefix of hexadecimal digits."""
    return select(_M.id).where(_M.id >= prefix, _M.id < prefix + "g").order_by(_M.id).limit(9)


def select_oldest_needed_time(condition: ColumnElement[bool], limit: int) -> Select[Any]:
    """Select a time since which there are at least ``limit`` measurements, and not many more.

    It is the latest, over the series, of the time of a series' ``limit``-th newest measurement. No
    series has more than ``limit`` at or after it, except at equal times. In microseconds since 1970
    UTC; null if no series has ``limit`` measurements.
    """
    last: ScalarSelect[Any] = (
        select(_M.at)
        .where(_M.series == _S.key)
        .order_by(_M.at.desc())
        .limit(1)
        .offset(limit - 1)
        .scalar_subquery()
    )
    return select(func.max(last)).select_from(series).where(condition)


def select_newest_ids(condition: ColumnElement[bool], since: int | None, limit: int) -> Select[Any]:
    """Select the ids of the newest measurements since a time, or since ever, newest first."""
    after = true() if since is None else _M.at >= since
    joined = series.join(measurements, _M.series == _S.key)
    newest_first = (_M.at.desc(), _M.id)
    return (
        select(_M.id)
        .select_from(joined)
        .where(condition, after)
        .order_by(*newest_first)
        .limit(limit)
    )


def select_fastest(condition: ColumnElement[bool]) -> Select[Any]:
    """Select each series with the id and the time (us) of its fastest valid measurement."""
    first = (
        select(_M.id)
        .where(_M.series == _S.key, _M.timed_us.is_not(None))
        .order_by(_M.timed_us, _M.id)
        .limit(1)
        .scalar_subquery()
    )
    least = (
        select(func.min(_M.timed_us))
        .where(_M.series == _S.key, _M.timed_us.is_not(None))
        .scalar_subquery()
    )
    return select(series, first.label("id"), least.label("us")).where(condition)


def select_newest_per_series(condition: ColumnElement[bool]) -> Select[Any]:
    """Select each series with the id and the time of its newest measurement."""
    of_series = _M.series == _S.key
    newest_first = _M.at.desc(), _M.id
    last = select(_M.id).where(of_series).order_by(*newest_first).limit(1).scalar_subquery()
    at = select(func.max(_M.at)).where(of_series).scalar_subquery()
    return select(series, last.label("id"), at.label("at")).where(condition)


def select_next_ids(measurement: str, limit: int) -> Select[Any]:
    """Select the ids that follow a given one, in ascending order."""
    return select(_M.id).where(_M.id > measurement).order_by(_M.id).limit(limit)


def select_promotions(kernel: str | None, *, latest_only: bool) -> Select[Any]:
    """Select promotions by scope and number: the last of each scope, or all."""
    found = select(promotions).order_by(promotions.c.place, promotions.c.number)
    if kernel is not None:
        found = found.where(promotions.c.kernel == kernel)
    if latest_only:
        other = promotions.alias()
        newest_number = select(func.max(other.c.number)).where(other.c.place == promotions.c.place)
        found = found.where(promotions.c.number == newest_number.scalar_subquery())
    return found
