"""Writes a copy of the page to a folder, which needs no server and no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from kernelkb.actions.history.attempts import load_attempt_log
from kernelkb.actions.knowledge.knowledge import group_entries_by_kind, load_project_knowledge
from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import BadValueError, KbError
from kernelkb.record.sessions import list_session_ids, read_session
from kernelkb.safety.files import replace_file
from kernelkb.safety.storage import describe_write_cure
from kernelkb.web import checklist, history, knowledge, start
from kernelkb.web.site import Site, View, name_file, read_static

ExportedPage = tuple[str, View, Mapping[str, str]]
"""Address of a page of the copy, its view, and what that is asked for."""


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
    exported = frozenset(page[0] for page in pages)
    count = 0
    try:
        (folder / "static").mkdir(parents=True, exist_ok=True)
        for draft in folder.rglob(".*.html.*.tmp"):  # of an export that was killed
            draft.unlink(missing_ok=True)
        for name in ("style.css", "icon.svg"):
            replace_file(folder / "static" / name, read_static(name) or b"")
        for address, view, asked in pages:
            with suppress(KbError):  # a session whose file is wrong has no page
                made = view(asked)
                depth = name_file(address).count("/")
                site = Site(project.name, depth=depth, exported=exported)
                file = folder / name_file(address)
                file.parent.mkdir(parents=True, exist_ok=True)
                replace_file(file, site.fill(made).encode(), is_synced=False)
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
    for address in ("", f"session/{name}"):
        yield address, checklist.show_checklist, {"session": name}
    for kernel in kernels:
        yield from _list_kernel(kernel)


def _list_all() -> Iterator[ExportedPage]:
    project = get_project_path()
    yield "", start.show_start, {}
    yield "history", history.show_history, {}
    yield "checklist", checklist.show_checklist, {}
    for name in list_session_ids(project / "sessions"):
        yield f"session/{name}", checklist.show_checklist, {"session": name}
    for row in start.list_kernel_rows(project):
        yield from _list_kernel(row.name)
    yield "knowledge", knowledge.show_index, {}
    yield "knowledge/quickref", knowledge.show_quickref, {}
    groups = group_entries_by_kind(load_project_knowledge())
    for kind in knowledge.KIND_TITLES:
        yield f"knowledge/{kind}", knowledge.show_kind, {"kind": kind}
        for name in groups[kind]:
            yield f"knowledge/{kind}/{name}", knowledge.show_entry, {"kind": kind, "name": name}


def _list_kernel(kernel: str) -> Iterator[ExportedPage]:
    yield f"kernel/{kernel}", history.show_kernel_history, {"name": kernel, "all": "1"}
    with suppress(KbError):  # it has none
        for name in load_attempt_log(kernel).tree.nodes:
            yield f"attempt/{name}", history.show_attempt, {"name": name}
