"""A measurement's id: a hash of all that it says, so that the same record is the same anywhere."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from kernelkb.errors import BadValueError
from kernelkb.model.base import Record
from kernelkb.model.history import Kind, Measurement, Subject

_DIGITS = 32
_UNKNOWN = "0" * _DIGITS


def canonical(record: Record, *without: str) -> str:
    """Return the one text of a record: sorted keys, floats by repr, no NaN.

    What has its default is left out, so that a field that is added later changes no id.
    """
    plain = record.model_dump(mode="json", exclude=set(without), exclude_defaults=True)
    return json.dumps(
        plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(text: str) -> str:
    """Return the first 32 hexadecimal digits of SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def identified(kind: Kind, at: datetime, subject: Subject, **fields: Any) -> Measurement:
    """Return a measurement with both of its ids worked out.

    Args:
        kind: What was done.
        at: When, with its time zone; it is kept in UTC.
        subject: What was measured.
        **fields: The other fields of ``Measurement``, without ``id`` and ``subject_id``.

    Raises:
        BadValueError: ``at`` has no time zone, or a field is unknown or holds something else.
    """
    if at.tzinfo is None:
        raise BadValueError(f"the time {at} has no time zone; write datetime.now(UTC)")
    given = {"kind": kind, "at": at.astimezone(UTC), "subject": subject, **fields}
    if "id" in given or "subject_id" in given:
        raise BadValueError("a measurement's ids follow from what it says; leave them out")
    try:
        draft = Measurement(id=_UNKNOWN, subject_id=_UNKNOWN, **given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise BadValueError(f"measurement field {field}: {first['msg'].lower()}") from error
    return draft.model_copy(update={"id": id_of(draft), "subject_id": digest(canonical(subject))})


def id_of(measurement: Measurement) -> str:
    """Return the id that follows from what a measurement says."""
    return digest(canonical(measurement, "id", "subject_id"))


def is_whole(measurement: Measurement) -> bool:
    """Say whether its ids are those of what it says."""
    right = id_of(measurement), digest(canonical(measurement.subject))
    return (measurement.id, measurement.subject_id) == right
