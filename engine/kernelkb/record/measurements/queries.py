"""Builds the SELECT statements on the tables of measurements, one function per query.

The queries by series loop over the matching series and do one index lookup for each, so their cost
does not grow with the number of measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, Select, and_, func, select, true

from kernelkb.record.measurements.tables import measurements, promotions, series, subjects

_M, _S = measurements.c, series.c
_COLUMNS = (
    _M.id,
    _M.subject,
    _M.body,
    _M.samples,
    subjects.c.body.label("subject_body"),
)


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
    """Select each series with the id of its newest measurement."""
    last = (
        select(_M.id)
        .where(_M.series == _S.key)
        .order_by(_M.at.desc(), _M.id)
        .limit(1)
        .scalar_subquery()
    )
    return select(series, last.label("id")).where(condition)


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
