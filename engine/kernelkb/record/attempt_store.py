"""The store of attempts: adds them, their events and their files, and queries them."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Engine, Select, desc, func, literal, select

from kernelkb.decide.recognise import compare_lines
from kernelkb.errors import BadValueError, DatabaseError, KbError, UnknownNameError
from kernelkb.model.base import Record
from kernelkb.model.records.history import (
    NOT_HASHED,
    Attempt,
    AttemptEvent,
    AttemptId,
    EventKind,
    FileDigest,
)
from kernelkb.model.records.measurement import is_valid
from kernelkb.record.measurements.database import (
    attempt_events,
    attempts,
    begin_read,
    begin_write,
    insert_new,
    source_files,
)
from kernelkb.record.measurements.rows import canonical_json, digest, to_microseconds
from kernelkb.record.measurements.store import Store, open_engine

_R = TypeVar("_R", bound=Record)
_DIGITS = 32
_PLACEHOLDER = "0" * _DIGITS
_LEVEL = 9
_MAX_BYTES = 64 * 2**20
"""Of one source file, unpacked: a damaged row does not fill the memory."""

_CHUNK_SIZE = 500
_MAX_DEPTH = 300
_HEX_DIGITS = frozenset("0123456789abcdef")
_RECENT = 100
"""Events of a kernel among which the states before are looked for."""
_MAX_COMPARED = 12
"""States whose sources are compared with a new one: chosen, for the time it takes."""
_UNKNOWN_DISTANCE = 1_000_000


def open_attempts(project: Path, url: str | None = None, *, writes: bool = True) -> AttemptStore:
    """Open the attempts of a project; raises as ``open_store`` does."""
    return AttemptStore(open_engine(project, url, writes=writes))


@contextmanager
def open_history(project: Path, *, writes: bool = True) -> Iterator[tuple[Store, AttemptStore]]:
    """Open the measurements and the attempts of a project at once; raises as ``open_store``."""
    engine = open_engine(project, writes=writes)
    try:
        yield Store(engine), AttemptStore(engine)
    finally:
        engine.dispose()


class AttemptStore:
    """Append-only store of attempts; any method may raise DatabaseError."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._engine.dispose()

    def add(
        self,
        added: Iterable[Attempt] = (),
        events: Iterable[AttemptEvent] = (),
        contents: Iterable[bytes] = (),
    ) -> int:
        """Add all in one transaction, except what is there already; return the new attempts.

        When this returns, all of it is on the disk; when it raises, nothing was added.
        """
        with begin_write(self._engine) as connection:
            insert_new(connection, source_files, map(file_row, contents), "digest")
            count = insert_new(connection, attempts, map(attempt_row, added), "id")
            insert_new(connection, attempt_events, map(event_row, events), "id")
            return count

    def keep(self, draft: Attempt, contents: Mapping[str, bytes], origin: str) -> None:
        """Add a state with the one that it comes from; of a known one, what its author says now.

        Args:
            draft: The state; its parent counts where it is the first of its variant.
            contents: Its files, by path.
            origin: The checkout, as ``identify_checkout`` names it.
        """
        known = self.get_many([draft.id]).get(draft.id)
        if known is None:
            parent = self._find_parent(draft, contents, origin) or draft.parent
            self.add([draft.model_copy(update={"parent": parent})], (), contents.values())
        elif draft.said not in (None, known.said):
            note = create_event(
                attempt=draft.id, kernel=draft.kernel, kind="note", origin=origin, found=draft.said
            )
            self.add((), [note])

    def _find_parent(
        self, draft: Attempt, contents: Mapping[str, bytes], origin: str
    ) -> AttemptId | None:
        """Return the state that a new one comes from; None for the first of its variant.

        That is the one of the last states in this checkout (or of all, where it is the first here)
        whose source differs in the fewest lines, and of equals the last: after a change that was
        taken back by hand, the next one comes from the state before both.
        """
        events = self.list_events_here(draft.kernel, origin, _RECENT)
        ids = dict.fromkeys(event.attempt for event in reversed(events))
        by_id = self.get_many(ids)
        states = [by_id[name] for name in ids if name in by_id]
        if not states:  # a fresh checkout, whose database may be that of a team
            states = self.list_newest(draft.kernel, _MAX_COMPARED)[::-1]
        variant = draft.variant, draft.target
        recent = [state for state in states if (state.variant, state.target) == variant]
        nearest = min(
            recent[:_MAX_COMPARED],
            key=lambda state: self._count_differences(state, draft, contents),
            default=None,
        )
        return nearest.id if nearest else None

    def _count_differences(
        self, before: Attempt, after: Attempt, contents: Mapping[str, bytes]
    ) -> int:
        """Return how many lines differ between a kept state and a new one."""
        count = 0
        for name in before.files.keys() | contents.keys():
            key = before.files.get(name)
            if key == after.files.get(name):
                continue
            try:
                old = self.read_file(key) if key else b""
            except KbError:  # imported without sources
                return _UNKNOWN_DISTANCE
            new = contents.get(name, b"")
            change = compare_lines(old.decode(errors="replace"), new.decode(errors="replace"))
            count += len(change.added) + len(change.removed)
        return count

    def find(self, word: str, kernel: str | None = None) -> Attempt:
        """Return one attempt by its id or a prefix of it.

        Raises:
            UnknownNameError: No id has this prefix.
            BadValueError: Several ids have it.
        """
        after = word + "g"  # behind every hexadecimal digit; LIKE would look at every row
        query = select(attempts).where(attempts.c.id >= word, attempts.c.id < after).limit(5)
        if kernel is not None:
            query = query.where(attempts.c.kernel == kernel)
        rows = self._fetch(query) if word and set(word) <= _HEX_DIGITS else []
        if not rows:
            raise UnknownNameError("attempt", word, (), "log", kernel=kernel)
        if len(rows) > 1:
            several = ", ".join(row["id"][:12] for row in rows[:4])
            raise BadValueError(
                f"{word!r} begins the ids of several attempts, such as {several}; write more of it"
            )
        return parse_attempt(rows[0])

    def get_many(self, ids: Iterable[AttemptId]) -> dict[AttemptId, Attempt]:
        """Return the attempts with some ids; one that is not there is left out."""
        found: dict[AttemptId, Attempt] = {}
        rest = iter(dict.fromkeys(ids))
        while chunk := list(islice(rest, _CHUNK_SIZE)):
            for row in self._fetch(select(attempts).where(attempts.c.id.in_(chunk))):
                found[row["id"]] = parse_attempt(row)
        return found

    def list_newest(self, kernel: str, limit: int) -> list[Attempt]:
        """Return the newest attempts at a kernel, the oldest of them first."""
        query = (
            select(attempts)
            .where(attempts.c.kernel == kernel)
            .order_by(desc(attempts.c.at), desc(attempts.c.id))
            .limit(limit)
        )
        return [parse_attempt(row) for row in reversed(self._fetch(query))]

    def count(self, kernel: str) -> int:
        """Return the number of attempts at a kernel."""
        query = select(func.count()).select_from(attempts).where(attempts.c.kernel == kernel)
        with begin_read(self._engine) as connection:
            return connection.scalar(query) or 0

    def list_events(self, ids: Iterable[AttemptId]) -> list[AttemptEvent]:
        """Return all events of some attempts, the oldest first."""
        found: list[AttemptEvent] = []
        rest = iter(dict.fromkeys(ids))
        while chunk := list(islice(rest, _CHUNK_SIZE)):
            query = select(attempt_events).where(attempt_events.c.attempt.in_(chunk))
            found += map(parse_event, self._fetch(query))
        return sorted(found, key=lambda event: (event.at, event.id))

    def list_events_of_kind(
        self, kernel: str, kinds: Sequence[EventKind], limit: int
    ) -> list[AttemptEvent]:
        """Return the newest events of some kinds of a kernel, the oldest of them first."""
        events = attempt_events.c
        found: list[AttemptEvent] = []
        for kind in kinds:  # one index lookup each
            found += self._list_newest_events((events.kernel == kernel, events.kind == kind), limit)
        return sorted(found, key=lambda event: (event.at, event.id))[-limit:]

    def list_outcomes(self, limit: int) -> list[AttemptEvent]:
        """Return the newest outcomes of all kernels, the oldest of them first."""
        return self._list_newest_events((attempt_events.c.kind == "outcome",), limit)

    def list_events_here(self, kernel: str, origin: str, limit: int) -> list[AttemptEvent]:
        """Return the newest events of a kernel in a checkout, the oldest of them first."""
        events = attempt_events.c
        return self._list_newest_events((events.kernel == kernel, events.origin == origin), limit)

    def _list_newest_events(
        self, where: Sequence[ColumnElement[bool]], limit: int
    ) -> list[AttemptEvent]:
        order = desc(attempt_events.c.at), desc(attempt_events.c.id)
        query = select(attempt_events).where(*where).order_by(*order).limit(limit)
        return [parse_event(row) for row in reversed(self._fetch(query))]

    def list_fastest(
        self, kernel: str, workload: str, device: str, limit: int = 5
    ) -> list[AttemptEvent]:
        """Return the fastest valid benches of a kernel on a workload and device."""
        events = attempt_events.c
        query = (
            select(attempt_events)
            .where(
                events.kernel == kernel,
                events.place == name_place(workload, device),
                events.timed_us.is_not(None),
            )
            .order_by(events.timed_us, events.id)
            .limit(limit)
        )
        return [parse_event(row) for row in self._fetch(query)]

    def list_ancestors(self, attempt: AttemptId) -> list[AttemptId]:
        """Return an attempt and those that it comes from, itself first; at most 300."""
        first = select(
            attempts.c.id, attempts.c.parent, literal(0).label("depth")
        ).where(attempts.c.id == attempt)  # fmt: skip
        path = first.cte("path", recursive=True)
        step = (
            select(attempts.c.id, attempts.c.parent, path.c.depth + 1)
            .join(path, attempts.c.id == path.c.parent)
            .where(path.c.depth < _MAX_DEPTH)
        )
        path = path.union_all(step)
        return [row["id"] for row in self._fetch(select(path.c.id).order_by(path.c.depth))]

    def read_file(self, key: FileDigest) -> bytes:
        """Return the content of a source file.

        Raises:
            UnknownNameError: It was not kept here, as after an import without sources.
            DatabaseError: It is damaged.
        """
        rows = self._fetch(select(source_files).where(source_files.c.digest == key))
        if not rows:
            raise UnknownNameError("source file", key[:12], (), "import", file=None)
        return unpack_file(key, rows[0]["content"])

    def iter_all(self) -> Iterator[Attempt]:
        """Yield all attempts in the order of their ids."""
        last = ""
        while True:
            query = select(attempts).where(attempts.c.id > last).order_by(attempts.c.id)
            rows = self._fetch(query.limit(_CHUNK_SIZE))
            yield from map(parse_attempt, rows)
            if not rows:
                return
            last = rows[-1]["id"]

    def check(self) -> None:
        """Read all attempts and their files.

        Raises:
            DatabaseError: One is damaged, or its parent is missing.
        """
        known = {one.id: one for one in self.iter_all()}
        for one in known.values():
            if one.parent is not None and one.parent not in known:
                raise make_attempt_damage_error(f"the parent of attempt {one.id[:8]}")
            for key in one.files.values():
                self.read_file(key)

    def _fetch(self, query: Select[Any]) -> Sequence[Any]:
        with begin_read(self._engine) as connection:
            return connection.execute(query).mappings().all()


def digest_content(content: bytes) -> FileDigest:
    """Return the digest of a file's content."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def identify_attempt(attempt: Attempt) -> AttemptId:
    """Return the id of an attempt: the hash of its kernel, variant, target, files and flags."""
    return digest(canonical_json(attempt, "parent", "at", "said", "session", *NOT_HASHED))


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
    return digest(canonical_json(event, *NOT_HASHED))


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
