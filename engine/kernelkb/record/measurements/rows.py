"""Measurements as database rows and back, and their ids: hashes of their content."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError

from kernelkb.errors import BadValueError, DatabaseError
from kernelkb.model.base import Record
from kernelkb.model.records.history import (
    NOT_HASHED,
    Measurement,
    MeasurementKind,
    Promotion,
    PromotionScope,
    SubjectRecord,
)
from kernelkb.model.records.measurement import is_valid

_ID_DIGITS = 32
_PLACEHOLDER_ID = "0" * _ID_DIGITS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_OWN_COLUMNS = {"id", "subject_id", "subject", "samples"}


def canonical_json(record: Record, *without: str) -> str:
    """Return the canonical JSON of a record: sorted keys, floats by repr, no NaN.

    Fields at their default are left out, so that adding a field later changes no id.

    Args:
        record: The record to serialize.
        without: Names of fields to leave out.
    """
    plain = record.model_dump(mode="json", exclude=set(without), exclude_defaults=True)
    return json.dumps(
        plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(text: str) -> str:
    """Return the first 32 hexadecimal digits (128 bits) of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


def create_measurement(
    kind: MeasurementKind, at: datetime, subject: SubjectRecord, **fields: Any
) -> Measurement:
    """Return a measurement with both of its ids computed.

    Args:
        kind: The kind of measurement, such as ``bench`` or ``tune``.
        at: The time of the measurement, with its time zone; it is stored in UTC.
        subject: The measured kernel, variant, workload, device and environment.
        **fields: The other fields of ``Measurement``, without ``id`` and ``subject_id``.

    Raises:
        BadValueError: ``at`` has no time zone, or a field is unknown or has an invalid value.
    """
    if at.tzinfo is None:
        raise BadValueError(f"the time {at} has no time zone; write datetime.now(UTC)")
    given = {"kind": kind, "at": at.astimezone(UTC), "subject": subject, **fields}
    if "id" in given or "subject_id" in given:
        raise BadValueError("a measurement's ids follow from what it says; leave them out")
    try:
        draft = Measurement(id=_PLACEHOLDER_ID, subject_id=_PLACEHOLDER_ID, **given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise BadValueError(f"measurement field {field}: {first['msg'].lower()}") from error
    return draft.model_copy(
        update={"id": compute_id(draft), "subject_id": digest(canonical_json(subject))}
    )


def compute_id(measurement: Measurement) -> str:
    """Return the id of a measurement: the hash of what it says."""
    return digest(canonical_json(measurement, "subject_id", *NOT_HASHED))


def is_intact(measurement: Measurement) -> bool:
    """Return whether both ids of a measurement match its content."""
    right = compute_id(measurement), digest(canonical_json(measurement.subject))
    return (measurement.id, measurement.subject_id) == right


def to_microseconds(at: datetime) -> int:
    """Return a time as microseconds since 1970 UTC."""
    return (at - _EPOCH) // _MICROSECOND


def hash_key(*words: str) -> int:
    """Return an integer key of some words: 63 bits of their SHA-256."""
    return int(digest("\0".join(words))[:16], 16) >> 1


def place_key(place: PromotionScope) -> int:
    """Return the integer key of a place (kernel, workload, device, target)."""
    return hash_key(place.kernel, place.workload, place.device, place.target)


def series_row(subject: SubjectRecord, kind: MeasurementKind) -> dict[str, Any]:
    """Return the row of the series of a subject and a kind."""
    named = {
        "kernel": subject.kernel,
        "variant": subject.variant,
        "target": subject.target,
        "workload": subject.workload,
        "device": subject.device,
        "kind": kind,
    }
    return {"key": hash_key(*named.values()), **named}


def subject_row(key: str, subject: SubjectRecord) -> dict[str, Any]:
    """Return the row of a subject."""
    return {"id": key, "body": subject.model_dump_json(exclude_defaults=True)}


def measurement_row(measurement: Measurement, series: int) -> dict[str, Any]:
    """Return the row of a measurement, in the series with the given key."""
    return {
        "id": measurement.id,
        "subject": measurement.subject_id,
        "series": series,
        "at": to_microseconds(measurement.at),
        "timed_us": _timed_us(measurement),
        "body": measurement.model_dump_json(exclude=_OWN_COLUMNS, exclude_defaults=True),
        "samples": _pack_samples(measurement.samples),
    }


def _timed_us(measurement: Measurement) -> float | None:
    counts = measurement.kind in ("bench", "tune") and is_valid(measurement.verdict)
    return measurement.candidate_us if counts else None


def parse_measurement(row: Mapping[str, Any]) -> Measurement:
    """Return the measurement of a row that is joined with its subject.

    Args:
        row: Has the columns ``id``, ``subject``, ``body``, ``samples`` and ``subject_body``.

    Raises:
        DatabaseError: The row is damaged and cannot be parsed.
    """
    try:
        return Measurement.model_validate(
            {
                **json.loads(row["body"]),
                "id": row["id"],
                "subject_id": row["subject"],
                "subject": json.loads(row["subject_body"]),
                "samples": _unpack_samples(row["samples"]),
            }
        )
    except (ValidationError, ValueError, TypeError, struct.error, zlib.error) as error:
        raise make_damage_error(row["id"]) from error


def make_damage_error(measurement: str) -> DatabaseError:
    """Return the error for a record whose content does not match its id."""
    return DatabaseError(
        f"measurement {measurement} is damaged: it is not what was recorded; "
        f"import it again from a copy that kb lab export wrote"
    )


def promotion_row(promotion: Promotion) -> dict[str, Any]:
    """Return the row of a promotion."""
    return {
        "place": place_key(promotion.place),
        "number": promotion.number,
        "kernel": promotion.place.kernel,
        "body": canonical_json(promotion),
    }


def parse_promotion(row: Mapping[str, Any]) -> Promotion:
    """Return the promotion of a row."""
    return Promotion.model_validate_json(row["body"])


def _pack_samples(samples: tuple[tuple[float, float], ...]) -> bytes | None:
    if not samples:
        return None
    flat = [value for pair in samples for value in pair]
    return zlib.compress(struct.pack(f"<{len(flat)}d", *flat), 1)


def _unpack_samples(blob: bytes | None) -> tuple[tuple[float, float], ...]:
    if not blob:
        return ()
    raw = zlib.decompress(blob)
    flat = struct.unpack(f"<{len(raw) // 8}d", raw)
    return tuple(zip(flat[::2], flat[1::2], strict=True))
