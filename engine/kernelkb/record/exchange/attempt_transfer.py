"""Exports attempts as JSON lines, with or without their sources, and imports them."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Iterator

from kernelkb.errors import BadValueError, KbError
from kernelkb.model.records.attempt import AttemptTransfer
from kernelkb.record.attempts.rows import identify_attempt, identify_event, unpack_file
from kernelkb.record.attempts.store import AttemptStore

ATTEMPT_KEY = "attempt"
"""The key of a line that holds an attempt."""


def generate_attempts(store: AttemptStore, *, with_sources: bool = True) -> Iterator[str]:
    """Yield a line for each attempt, with its events; a source file stands in one of them.

    Args:
        store: All of it is exported.
        with_sources: Whether to write the files; without, they cannot be restored elsewhere.
    """
    written: set[str] = set()
    for attempt in store.iter_all():
        files: dict[str, str] = {}
        for key in attempt.files.values() if with_sources else ():
            if key not in written:
                written.add(key)
                packed = zlib.compress(store.read_file(key), 9)
                files[key] = base64.b64encode(packed).decode()
        events = tuple(store.list_events([attempt.id]))
        one = AttemptTransfer(attempt=attempt, events=events, files=files)
        plain = one.model_dump(mode="json", exclude_defaults=True)
        yield json.dumps({ATTEMPT_KEY: plain}, ensure_ascii=False) + "\n"


def add_transfers(store: AttemptStore, transfers: Iterable[AttemptTransfer]) -> int:
    """Add attempts of an export; return how many were new.

    Raises:
        BadValueError: One was changed since it was exported.
        DatabaseError: The database cannot be written.
    """
    count = 0
    for one in transfers:
        is_whole = one.attempt.id == identify_attempt(one.attempt) and all(
            event.id == identify_event(event) and event.attempt == one.attempt.id
            for event in one.events
        )
        if not is_whole:
            raise BadValueError(f"attempt {one.attempt.id} was changed since; export it again")
        contents = [_unpack(key, text) for key, text in one.files.items()]
        count += store.add([one.attempt], one.events, contents)
    return count


def _unpack(key: str, text: str) -> bytes:
    try:
        return unpack_file(key, base64.b64decode(text, validate=True))
    except (binascii.Error, KbError) as error:
        raise BadValueError(f"source file {key} was changed since; export it again") from error
