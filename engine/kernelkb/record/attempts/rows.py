"""Converts attempts, their events and source files to database rows and back."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from kernelkb.errors import DatabaseError
from kernelkb.model.base import Record
from kernelkb.model.records.history import Attempt, AttemptEvent, AttemptId, FileDigest
from kernelkb.model.records.measurement import is_valid
from kernelkb.record.measurements.identity import canonical_json, digest
from kernelkb.record.measurements.rows import to_microseconds

_R = TypeVar("_R", bound=Record)
_DIGITS = 32
_PLACEHOLDER = "0" * _DIGITS
_LEVEL = 9
_MAX_BYTES = 64 * 2**20
"""Of one source file, unpacked: a damaged row does not fill the memory."""


def digest_content(content: bytes) -> FileDigest:
    """Return the digest of a file's content."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def identify_attempt(attempt: Attempt) -> AttemptId:
    """Return the id of an attempt: the hash of its kernel, variant, target, files and flags."""
    return digest(canonical_json(attempt, "id", "parent", "at", "said", "session"))


def create_attempt(**fields: Any) -> Attempt:
    """Return an attempt with its id."""
    draft = Attempt(id=_PLACEHOLDER, **fields)
    return draft.model_copy(update={"id": identify_attempt(draft)})


def create_event(**fields: Any) -> AttemptEvent:
    """Return an event, now by default, with its id."""
    draft = AttemptEvent(id=_PLACEHOLDER, **{"at": datetime.now(UTC), **fields})
    return draft.model_copy(update={"id": identify_event(draft)})


def identify_event(event: AttemptEvent) -> str:
    """Return the id of an event: the hash of what it says."""
    return digest(canonical_json(event, "id"))


def attempt_row(attempt: Attempt) -> dict[str, Any]:
    """Return the row of an attempt."""
    return {
        "id": attempt.id,
        "kernel": attempt.kernel,
        "variant": attempt.variant,
        "target": attempt.target,
        "at": to_microseconds(attempt.at),
        "parent": attempt.parent,
        "body": attempt.model_dump_json(exclude={"id"}, exclude_defaults=True),
    }


def event_row(event: AttemptEvent) -> dict[str, Any]:
    """Return the row of an event."""
    return {
        "id": event.id,
        "attempt": event.attempt,
        "kernel": event.kernel,
        "kind": event.kind,
        "origin": event.origin,
        "at": to_microseconds(event.at),
        "place": name_place(event.workload, event.device) if event.kind == "bench" else None,
        "timed_us": event.candidate_us if is_valid(event.verdict) else None,
        "body": event.model_dump_json(exclude={"id"}, exclude_defaults=True),
    }


def name_place(workload: str | None, device: str | None) -> str:
    """Return the key of a workload on a device."""
    return f"{workload}\n{device}"


def file_row(content: bytes) -> dict[str, Any]:
    """Return the row of a source file."""
    return {"digest": digest_content(content), "content": zlib.compress(content, _LEVEL)}


def parse_attempt(row: Mapping[str, Any]) -> Attempt:
    """Return the attempt of a row.

    Raises:
        DatabaseError: The row is damaged.
    """
    return _parse(Attempt, row, "attempt")


def parse_event(row: Mapping[str, Any]) -> AttemptEvent:
    """Return the event of a row.

    Raises:
        DatabaseError: The row is damaged.
    """
    return _parse(AttemptEvent, row, "event")


def _parse(model: type[_R], row: Mapping[str, Any], what: str) -> _R:
    try:
        return model.model_validate({**json.loads(row["body"]), "id": row["id"]})
    except (ValidationError, ValueError, TypeError) as error:
        raise make_attempt_damage_error(f"{what} {row['id']}") from error


def unpack_file(key: FileDigest, packed: bytes) -> bytes:
    """Return the content of a source file.

    Raises:
        DatabaseError: The row is damaged.
    """
    try:
        content = zlib.decompressobj().decompress(packed, _MAX_BYTES)
    except zlib.error as error:
        raise make_attempt_damage_error(f"the source file {key[:8]}") from error
    if digest_content(content) != key:
        raise make_attempt_damage_error(f"the source file {key[:8]}")
    return content


def make_attempt_damage_error(what: str) -> DatabaseError:
    """Return the error for a row whose content does not match its key."""
    return DatabaseError(
        f"{what} is damaged: it is not what was kept; import it again from a copy that "
        "kb lab export wrote"
    )
