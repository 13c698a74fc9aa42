"""The start view: kernels with where they stand, the open session, what to do next; and search."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.sessions.session_brief import brief_session
from kernelkb.errors import KbError
from kernelkb.loading.kernels import find_kernel_folders
from kernelkb.model.records.history import Measurement
from kernelkb.model.records.session import Session, SessionSummary
from kernelkb.record.measurements.store import Store, open_store
from kernelkb.record.sessions import (
    find_open_session,
    list_session_ids,
    read_header,
    read_session,
    session_path,
)
from kernelkb.web.knowledge import search_entries
from kernelkb.web.site import WebPage

_MAX_KERNELS = 60
_MAX_FOUND = 20
_CLOSING = b"\ncloses: true\n"
"""How an entry that ends a session is written."""
_NEWEST = 400
"""Files of sessions whose goals are searched, the newest."""


class KernelRow(NamedTuple):
    """Where a kernel stands."""

    name: str
    is_own: bool
    best: Measurement | None
    """The fastest valid one of the place that was measured last."""
    latest: Measurement | None

    @property
    def to_floor(self) -> float | None:
        """How many times as long as its floor the best one takes; None: not known."""
        return self.best.metrics.get("attainable_speedup") if self.best else None


def show_start() -> WebPage:
    """Return what a person sees first.

    Raises:
        DatabaseError: The database cannot be read.
    """
    project = get_project_path()
    rows = list_kernel_rows(project)
    opened, brief = find_open_here(project), describe_next(project)
    values = {
        "kernels": rows[:_MAX_KERNELS],
        "left": max(len(rows) - _MAX_KERNELS, 0),
        "session": opened,
        "brief": brief,
        "tried": [line for line in brief if line.startswith(("+ ", "- "))],
    }
    return WebPage("start.html", "Start", "", values)


def describe_next(project: Path) -> list[str]:
    """Return where work stands and what comes next, as ``kb session show --brief`` prints it."""
    try:
        return brief_session().splitlines()
    except KbError as error:
        return [f"{project.name}: {error}"]


def find_open_here(project: Path) -> Session | None:
    """Return the open session; None without one, or where its file is wrong."""
    with suppress(KbError):
        name = find_open_session(project)
        return read_session(name, project / "sessions") if name else None
    return None


def list_kernel_rows(project: Path) -> list[KernelRow]:
    """Return the kernels of a project and all that were measured, those measured last first."""
    folders = find_kernel_folders(project)
    own = {name for name, path in folders.items() if path.is_relative_to(project)}
    with open_store(project, writes=False) as store:
        best = _find_best(store)
        latest = _find_latest(store)
    names = sorted({*own, *best, *latest})
    rows = [
        KernelRow(
            name,
            name in own,
            _choose_place(best.get(name, []), latest.get(name)),
            latest.get(name),
        )
        for name in names
    ]
    return sorted(rows, key=lambda row: -row.latest.at.timestamp() if row.latest else 0.0)


def _find_best(store: Store) -> dict[str, list[Measurement]]:
    found: dict[str, list[Measurement]] = {}
    for one in store.best():
        found.setdefault(one.subject.kernel, []).append(one)
    return found


def _find_latest(store: Store) -> dict[str, Measurement]:
    found: dict[str, Measurement] = {}
    for one in store.latest():
        known = found.get(one.subject.kernel)
        if known is None or one.at > known.at:
            found[one.subject.kernel] = one
    return found


def _choose_place(best: list[Measurement], latest: Measurement | None) -> Measurement | None:
    """Return the best of the place that was measured last, else of any."""
    where = (latest.subject.workload, latest.subject.device) if latest else None
    same = [one for one in best if (one.subject.workload, one.subject.device) == where]
    return next(iter([*same, *best]), None)


def summarize_sessions(project: Path, names: list[str]) -> list[SessionSummary]:
    """Return a row for each of some sessions; one whose file is wrong is unreadable."""
    opened = None
    with suppress(KbError):
        opened = find_open_session(project)
    rows = []
    for name in names:
        try:
            one, is_closed = _read_header(name, project / "sessions")
        except (KbError, OSError):
            rows.append(SessionSummary(session=name, state="unreadable"))
            continue
        rows.append(
            SessionSummary(
                session=name,
                state="current" if name == opened else "closed" if is_closed else "open",
                kernel=one.kernel,
                opened=one.opened,
                goal=one.goal,
            )
        )
    return rows


def _read_header(name: str, folder: Path) -> tuple[Session, bool]:
    """Return what stands at the head of a session's file, and whether an entry ends it.

    The entries are not read: a list of sessions would take ten times as long.
    """
    is_closed = _CLOSING in session_path(name, folder).read_bytes()
    return read_header(name, folder), is_closed


def show_search(query: str) -> WebPage:
    """Return what knowledge, kernels and sessions hold some words.

    Raises:
        KbError: The knowledge or the database cannot be read.
    """
    project = get_project_path()
    words = query.lower().split()
    kernels, sessions = [], []
    if words:
        kernels = [row for row in list_kernel_rows(project) if _holds(row.name, words)]
        names = list_session_ids(project / "sessions")[::-1][:_NEWEST]
        named = [name for name in names if _holds(name, words)]
        texts = [name for name in names if name not in named and _has_text(project, name, words)]
        sessions = summarize_sessions(project, [*named, *texts][:_MAX_FOUND])
    values = {
        "query": query[:400],
        "hits": search_entries(query),
        "kernels": kernels[:_MAX_FOUND],
        "sessions": sessions,
    }
    return WebPage("search.html", f"Search: {query[:60]}", "", values)


def _holds(text: str, words: list[str]) -> bool:
    return all(word in text.lower() for word in words)


def _has_text(project: Path, name: str, words: list[str]) -> bool:
    """Whether the file of a session holds all words; parsing it would take 20 times as long."""
    path = f"{project}/sessions/{name}.md"
    try:
        seen = os.stat(path)  # noqa: PTH116 a Path takes 20 us
        return _holds(_read_words(path, seen.st_mtime_ns, seen.st_size), words)
    except OSError:
        return False


@lru_cache(maxsize=_NEWEST)
def _read_words(path: str, _stamp: int, _size: int) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace").lower()
