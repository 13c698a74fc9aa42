"""Writes a copy of the page to a folder, which needs no server and no script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.knowledge.knowledge import group_entries_by_kind, load_project_knowledge
from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import BadValueError, KbError
from kernelkb.record.attempt_store import open_attempts
from kernelkb.record.sessions import list_session_ids, read_session
from kernelkb.safety.files import replace_file
from kernelkb.safety.storage import describe_write_cure
from kernelkb.web import checklist, history, knowledge, start
from kernelkb.web.site import Site, WebPage, name_file, read_static

_KINDS = (
    "bottlenecks", "fixes", "trees", "patterns", "devices", "metrics", "thresholds",
    "architectures", "workflow", "preflight", "stop-rules", "sources", "symptoms",
)  # fmt: skip
_MAX_ATTEMPTS = 400
"""Attempts of a kernel that get a page, the newest."""


class ExportedPage(NamedTuple):
    """A page of the copy."""

    address: str
    make: Callable[[], WebPage]


def export_site(folder: Path, session: str | None = None) -> int:
    """Write a copy of all views, or of one session with its kernel; return how many pages.

    Args:
        folder: It is made, and pages of an earlier copy in it are replaced.
        session: Id of a session; None: everything.

    Raises:
        UnknownNameError: There is no such session.
        BadValueError: The folder cannot be written.
    """
    pages = list(_list_session(session) if session else _list_all())
    project = get_project_path()
    if session:
        read_session(session, project / "sessions")
    exported = frozenset(page.address for page in pages)
    count = 0
    try:
        (folder / "static").mkdir(parents=True, exist_ok=True)
        for name in ("style.css", "icon.svg"):
            replace_file(folder / "static" / name, read_static(name) or b"")
        for page in pages:
            with suppress(KbError):  # a session whose file is wrong has no page
                made = page.make()
                depth = name_file(page.address).count("/")
                site = Site(project.name, depth=depth, exported=exported)
                file = folder / name_file(page.address)
                file.parent.mkdir(parents=True, exist_ok=True)
                replace_file(file, site.fill(made).encode())
                count += 1
    except OSError as error:
        cure = describe_write_cure(error, "name another folder")
        raise BadValueError(f"cannot write to {folder}: {error.strerror}; {cure}") from error
    return count


def _list_session(name: str) -> Iterator[ExportedPage]:
    """Yield a session's checklist as the first page, and the history of its kernels."""
    session = read_session(name, get_project_path() / "sessions")
    kernels = dict.fromkeys(
        one for one in (session.kernel, *(entry.kernel for entry in session.entries)) if one
    )
    yield ExportedPage("", lambda: checklist.show_checklist(name))
    yield ExportedPage(f"session/{name}", lambda: checklist.show_checklist(name))
    for kernel in kernels:
        yield from _list_kernel(kernel)


def _list_all() -> Iterator[ExportedPage]:
    project = get_project_path()
    yield ExportedPage("", start.show_start)
    yield ExportedPage("history", lambda: history.show_history({}))
    yield ExportedPage("checklist", checklist.show_checklist)
    for name in list_session_ids(project / "sessions"):
        yield ExportedPage(f"session/{name}", partial(checklist.show_checklist, name))
    for row in start.list_kernel_rows(project):
        yield from _list_kernel(row.name)
    yield ExportedPage("knowledge", knowledge.show_index)
    yield ExportedPage("knowledge/quickref", knowledge.show_quickref)
    groups = group_entries_by_kind(load_project_knowledge())
    for kind in _KINDS:
        yield ExportedPage(f"knowledge/{kind}", partial(knowledge.show_kind, kind))
        for name in groups[kind]:
            yield ExportedPage(
                f"knowledge/{kind}/{name}", partial(knowledge.show_entry, kind, name)
            )


def _list_kernel(kernel: str) -> Iterator[ExportedPage]:
    yield ExportedPage(f"kernel/{kernel}", lambda: history.show_kernel_history(kernel, {}))
    with open_attempts(get_project_path(), writes=False) as store:
        attempts = store.list_newest(kernel, _MAX_ATTEMPTS)
    for one in attempts:
        yield ExportedPage(f"attempt/{one.id}", partial(history.show_attempt, one.id))
