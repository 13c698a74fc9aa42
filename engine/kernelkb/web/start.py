"""The start view: kernels with where they stand, the open session, what to do next; and search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.knowledge.knowledge import knowledge_digest
from kernelkb.actions.knowledge.search import find_entries
from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.sessions.session_brief import list_brief_lines
from kernelkb.errors import KbError
from kernelkb.loading.kernels import find_kernel_folders
from kernelkb.model.records.history import Measurement
from kernelkb.model.records.session import AchievedSpeedup, Session
from kernelkb.record.measurements.store import open_store, stamp_database
from kernelkb.record.outcomes import compute_session_outcomes
from kernelkb.record.running import stamp_files
from kernelkb.record.sessions import (
    find_open_session,
    list_session_ids,
    read_session,
    session_path,
)
from kernelkb.web.knowledge import link_entries
from kernelkb.web.site import WebPage

_MAX_FOUND, _MAX_HITS = 12, 30
_NEWEST = 400
"""Files of sessions whose goals are searched, the newest."""


class KernelRow(NamedTuple):
    """Where a kernel stands."""

    name: str
    best: Measurement | None
    """The fastest valid one of the place that was measured last."""
    latest: Measurement | None

    @property
    def to_floor(self) -> float | None:
        """How many times as long as its floor the best one takes; None: not known."""
        return self.best.metrics.get("attainable_speedup") if self.best else None


class SessionRow(NamedTuple):
    """Where a session stands."""

    id: str
    state: str
    """``current``: commands log to it. ``unreadable``: its file is wrong. Else open or closed."""
    session: Session | None = None
    best: AchievedSpeedup | None = None
    """Of the benches that can be compared with its last one."""


def show_start(_: Mapping[str, str]) -> WebPage:
    """Return what a person sees first.

    Raises:
        DatabaseError: The database cannot be read.
    """
    project = get_project_path()
    try:
        brief = list_brief_lines()
    except KbError as error:
        brief = [f"{project.name}: {error}"]
    values = {
        "kernels": list_kernel_rows(project),
        "session": find_open_session(project),
        "brief": brief,
    }
    return WebPage("start.html", "Start", "", values)


def list_kernel_rows(project: Path) -> list[KernelRow]:
    """Return the kernels of a project and all that were measured, those measured last first."""
    own = [
        name for name, path in find_kernel_folders(project).items() if path.is_relative_to(project)
    ]
    fastest, newest = _read_kernels(project, stamp_database(project))
    rows = []
    for name in sorted({*own, *newest, *(one.subject.kernel for one in fastest)}):
        last = newest.get(name)
        where = (last.subject.workload, last.subject.device) if last else None
        best = [one for one in fastest if one.subject.kernel == name]
        here = [one for one in best if (one.subject.workload, one.subject.device) == where]
        rows.append(KernelRow(name, next(iter([*here, *best]), None), last))
    return sorted(rows, key=lambda row: -row.latest.at.timestamp() if row.latest else 0.0)


def stamp_project() -> tuple[object, ...]:
    """Return what is another one where measurements, sessions, kernels or knowledge changed.

    Raises:
        KbError: The knowledge or the database cannot be read.
    """
    project = get_project_path()
    sessions = stamp_files(project / "sessions"), find_open_session(project)
    kernels = tuple(find_kernel_folders(project))
    return stamp_database(project), sessions, kernels, knowledge_digest()


@lru_cache(maxsize=2)
def _read_kernels(
    project: Path, _stamp: tuple[object, ...]
) -> tuple[list[Measurement], dict[str, Measurement]]:
    with open_store(project, writes=False) as store:
        return store.best(), {one.subject.kernel: one for one in store.list_newest()}


def list_session_rows(project: Path, names: Sequence[str]) -> list[SessionRow]:
    """Return a row for each of some sessions."""
    opened, folder, rows = find_open_session(project), project / "sessions", []
    for name in names:
        row = SessionRow(name, "unreadable")
        with suppress(KbError, OSError):
            path = session_path(name, folder)
            seen = path.stat()
            one, best = _read_session(path, (seen.st_mtime_ns, seen.st_size))
            state = "current" if name == opened else "closed" if one.is_closed else "open"
            row = SessionRow(name, state, one, best)
        rows.append(row)
    return rows


@lru_cache(maxsize=64)
def _read_session(path: Path, _stamp: tuple[int, int]) -> tuple[Session, AchievedSpeedup | None]:
    one = read_session(path.stem, path.parent)
    return one, compute_session_outcomes(one).best


def show_search(asked: Mapping[str, str]) -> WebPage:
    """Return what knowledge, kernels and sessions hold the words ``q``.

    Raises:
        KbError: The knowledge or the database cannot be read.
    """
    project, query = get_project_path(), asked.get("q", "")
    words = query.lower().split()
    kernels, sessions = [], []
    if words:
        kernels = [row for row in list_kernel_rows(project) if _holds(row.name, words)]
        names = list_session_ids(project / "sessions")[::-1][:_NEWEST]
        named = [name for name in names if _holds(name, words)]
        texts = [name for name in names if name not in named and _has_text(project, name, words)]
        sessions = list_session_rows(project, [*named, *texts][:_MAX_FOUND])
    hits = find_entries(query[:400], limit=_MAX_HITS) if words else []
    kinds = link_entries().kinds
    found = {
        "Kernels": [(row.name, ("kernel", row.name), "") for row in kernels[:_MAX_FOUND]],
        "Sessions": [
            (row.id, ("session", row.id), row.session.goal if row.session else row.state)
            for row in sessions
        ],
        "Knowledge": [
            (
                hit.title or hit.id,
                ("knowledge", kinds[hit.id], hit.id) if hit.id in kinds else (),
                f"{hit.kind} {hit.id}",
            )
            for hit in hits
        ],
    }
    values = {"query": query[:400], "found": found}
    return WebPage("search.html", f"Search: {query[:60]}", "", values)


def _holds(text: str, words: list[str]) -> bool:
    return all(word in text.lower() for word in words)


def _has_text(project: Path, name: str, words: list[str]) -> bool:
    """Whether the file of a session holds all words; parsing it would take 20 times as long."""
    with suppress(OSError):
        path = session_path(name, project / "sessions")
        return _holds(path.read_text(encoding="utf-8", errors="replace"), words)
    return False
