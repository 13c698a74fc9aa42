"""Shows the attempts at a kernel, their tree and the best of them; writes one back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from kernelkb.actions.history.measured_subject import identify_checkout
from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import BadValueError, DatabaseError, KbError, NextStep, UnknownNameError
from kernelkb.loading.kernels import (
    find_kernel_folder,
    load_kernel,
    load_kernel_without_files,
    select_variant,
)
from kernelkb.measure.build.folders import iter_included, parse_include_folders
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.model.kernels.languages import COMPILED_SUFFIXES, HEADER_SUFFIXES
from kernelkb.model.records.history import Attempt, AttemptEvent, AttemptId
from kernelkb.record.attempt_store import (
    AttemptStore,
    create_attempt,
    create_event,
    digest_content,
    open_attempts,
)
from kernelkb.record.attempt_tree import (
    AttemptLog,
    AttemptTree,
    RestoredAttempt,
    build_tree,
    find_stuck,
)
from kernelkb.record.measurements.store import stamp_database
from kernelkb.render.text.attempts import ID_DIGITS
from kernelkb.safety.files import exchange_file
from kernelkb.safety.storage import describe_write_cure
from kernelkb.safety.workspace import read_bytes, resolve_inside

MAX_SHOWN = 50
"""Attempts that are read for a tree, the newest."""
_MAX_OLDER = 10
"""States before an older best attempt that are read, too."""


def load_attempt_log(kernel: str, limit: int = MAX_SHOWN) -> AttemptLog:
    """Return the attempts at a kernel.

    Args:
        kernel: Its name.
        limit: Most attempts to read, the newest.

    Raises:
        UnknownNameError: There is no such kernel.
        DatabaseError: The database cannot be read.
    """
    project = get_project_path()
    count, tree = _read_tree(project, kernel, limit, stamp_database(project))
    if not count:
        load_kernel(kernel, project)
    return AttemptLog(kernel, tree, count, find_stuck(tree))


def read_tree(project: Path, kernel: str, limit: int = MAX_SHOWN) -> AttemptTree:
    """Return ``load_tree`` of a project's database: the same one until something is written."""
    return _read_tree(project, kernel, limit, stamp_database(project))[1]


@lru_cache(maxsize=16)
def _read_tree(
    project: Path, kernel: str, limit: int, _stamp: tuple[object, ...]
) -> tuple[int, AttemptTree]:
    with open_attempts(project, writes=False) as store:
        return store.count(kernel), load_tree(store, kernel, limit)


def load_tree(store: AttemptStore, kernel: str, limit: int = MAX_SHOWN) -> AttemptTree:
    """Return the newest attempts at a kernel as a tree, with the best one and those before it."""
    found = {one.id: one for one in store.list_newest(kernel, limit)}
    events = store.list_events(found)
    tree = build_tree(found.values(), events)
    if tree.place is None or len(found) < limit:
        return tree
    fastest = store.list_fastest(kernel, tree.place.workload, tree.place.device)
    older = [event.attempt for event in fastest if event.attempt not in found]
    if not older:
        return tree
    more = store.get_many([*older, *store.list_ancestors(older[0])[:_MAX_OLDER]])
    events += store.list_events(one for one in more if one not in found)
    return build_tree((found | more).values(), events)


def find_best_attempt(store: AttemptStore, kernel: str) -> AttemptId:
    """Return the fastest valid attempt at a kernel.

    Raises:
        UnknownNameError: There is no such kernel.
        BadValueError: None was timed.
    """
    best = load_tree(store, kernel).best
    if best is None:
        if not store.count(kernel):
            load_kernel(kernel, get_project_path())
        times_one = NextStep("bench", {"kernel": kernel}, "times one")
        raise BadValueError(f"no valid time of {kernel} is in its history", times_one)
    return best


BEST = "best"
"""The word that selects the fastest attempt."""


def find_attempt_to_restore(
    word: str, kernel: str, variant: str | None = None, target: TargetChoice = "auto"
) -> Attempt:
    """Return the attempt at a kernel that is to be written back; writes nothing.

    Args:
        word: Its id, or the beginning of it; ``best``: the fastest one.
        kernel: The kernel that it has to be of.
        variant: The variant likewise; None: any.
        target: The target likewise; ``auto``: any.

    Raises:
        UnknownNameError: There is no such kernel or attempt.
        BadValueError: Several ids begin like this, none was timed, or it is of another kernel,
            variant or target.
        DatabaseError: The database cannot be read.
    """
    with open_attempts(get_project_path(), writes=False) as store:
        chosen = _find_attempt(store, word, kernel)
    name = chosen.id[:ID_DIGITS]
    if chosen.kernel != kernel:
        wrong = f"{name} is an attempt at {chosen.kernel}, not at {kernel}"
        raise BadValueError(wrong, NextStep("log", {"kernel": kernel}, "lists those"))
    if variant not in (None, chosen.variant):
        wrong = f"{name} is of variant {chosen.variant}, not {variant}"
        raise BadValueError(f"{wrong}; leave variant out, or restore another attempt")
    if target not in ("auto", chosen.target):
        wrong = f"{name} is for {chosen.target}, not {target}"
        raise BadValueError(f"{wrong}; leave target out, or restore another attempt")
    return chosen


def _find_attempt(store: AttemptStore, word: str, kernel: str) -> Attempt:
    """Return the attempt by its id among those of the kernel, else among all."""
    if word == BEST:
        return store.find(find_best_attempt(store, kernel))
    try:
        return store.find(word, kernel)
    except UnknownNameError as unknown:
        if not store.count(kernel):
            load_kernel(kernel, get_project_path())
        with suppress(UnknownNameError):
            return store.find(word)
        raise unknown from None


def restore_attempt(word: str | None = None, kernel: str | None = None) -> RestoredAttempt:
    """Write the files of an attempt back, byte for byte.

    What is there now is kept first. A file that changes meanwhile is kept, too: each file
    changes places with the one that is there, and that one is read afterwards.

    Args:
        word: Id of the attempt, or its beginning; None: the fastest one of ``kernel``.
        kernel: The kernel of that one.

    Raises:
        UnknownNameError: No such attempt, or its files were not kept here.
        BadValueError: Neither is given, a file is not one that the variant is made of, or it
            cannot be written or kept.
        DatabaseError: The database fails; no file was changed.

    Returns:
        What was written; its ``unrecorded`` says why the history does not hold it, if that failed.
    """
    if word is None and kernel is None:
        raise BadValueError("name an attempt: kb lab restore ID, or kb lab restore --best KERNEL")
    project = get_project_path()
    with open_attempts(project, writes=False) as store:
        chosen = store.find(find_best_attempt(store, kernel or "") if word is None else word)
    with open_attempts(project) as store:
        contents = {name: store.read_file(key) for name, key in chosen.files.items()}
        _refuse_foreign_files(project, chosen, contents)
        paths = {name: _resolve(project, name) for name in contents}
        present = {name: read_bytes(path) for name, path in paths.items() if path.is_file()}
        kept = _keep(store, project, chosen, present)
        written = _write(store, project, chosen, contents, present)
        unrecorded = None
        try:
            store.add((), [_make_event(project, chosen, written)])
        except DatabaseError as error:  # the files are there all the same
            unrecorded = str(error)
    flags = _find_flags(project, chosen)
    differ = flags is not None and flags != chosen.flags
    return RestoredAttempt(chosen, kept, written, differ, unrecorded)


def _refuse_foreign_files(project: Path, chosen: Attempt, contents: dict[str, bytes]) -> None:
    """Refuse an attempt with a file that its variant is not made of; an import may name any.

    Those are the sources that kernel.yaml names, and what they include. Of an imported attempt,
    included files are new, or of the variant as it is; another one's variant may be renamed.

    Raises:
        BadValueError: There is such a file; nothing was written.
        UnknownNameError: kernel.yaml names no such variant.
        KnowledgeError: kernel.yaml is invalid.
    """
    root = project.resolve()
    folder = find_kernel_folder(chosen.kernel, project).resolve()
    kernel = load_kernel_without_files(folder)
    variants = [one for one in kernel.variants if one.target == chosen.target]
    if chosen.imported or any(one.id == chosen.variant for one in variants):
        variants = [select_variant(kernel, chosen.target, chosen.variant)]
    own = {(folder / name).resolve() for one in variants for name in (one.source, *one.also)}
    folders = [part for one in variants for part in parse_include_folders(one.flags, folder)]
    known = _list_sources(root, folders, own, {})
    fixed = {(folder / name).resolve() for name in kernel.reference.files}
    made_of = _list_sources(root, folders, own, contents)
    free = {
        root / name
        for name in contents
        if not chosen.imported or root / name in known or not (root / name).exists()
    }
    own |= {path for path in made_of & free - fixed if _is_code(path)}
    foreign = [name for name in contents if root / name not in own]
    if not foreign:
        return
    sources = [
        (root / name).relative_to(folder).as_posix()
        for name in foreign
        if root / name in free - fixed and (root / name).is_relative_to(folder)
    ]
    raise BadValueError(
        f"{foreign[0]} is no source of {chosen.variant} in the kernel.yaml of {kernel.id}, nor "
        f"included by one; nothing was written{_describe_renamed(sources)}"
    )


def _describe_renamed(sources: Sequence[str]) -> str:
    """Return what to do where files that kernel.yaml does not name, in its folder, were sources."""
    renamed = [name for name in sources if not name.endswith(HEADER_SUFFIXES)]
    if not renamed:
        return ""
    return (
        f"; if it was renamed, let kernel.yaml name {', '.join(renamed)} again, as source or under "
        f"also, and restore again"
    )


def _list_sources(
    root: Path, folders: Sequence[Path], own: set[Path], contents: dict[str, bytes]
) -> set[Path]:
    """Return sources and what they include, with some contents instead of those on the disk."""
    given = {root / name: content for name, content in contents.items()}
    found: set[Path] = set()
    pending = list(own)
    while pending:
        path = pending.pop()
        if path in found or not (path in given or path.is_file()):
            continue
        found.add(path)
        text = (given[path] if path in given else read_bytes(path)).decode(errors="replace")
        for paths in iter_included(path, text, folders):
            present = (one.resolve() for one in paths)
            pending += [one for one in present if one in given or one.is_file()][:1]
    return found


def _is_code(path: Path) -> bool:
    return path.suffix in (*COMPILED_SUFFIXES, *HEADER_SUFFIXES)


def _resolve(project: Path, name: str) -> Path:
    """Return the path of a file; an imported attempt may name any."""
    path = Path(resolve_inside((project / name).resolve(), to_write=True))
    if not path.is_relative_to(project.resolve()):
        raise BadValueError(f"{name} lies outside the project; nothing was written")
    return path


def _keep(
    store: AttemptStore, project: Path, chosen: Attempt, present: dict[str, bytes]
) -> AttemptId | None:
    """Keep files as a state of the variant; return its id, or None if it is the chosen one."""
    draft = create_attempt(
        kernel=chosen.kernel,
        variant=chosen.variant,
        target=chosen.target,
        files={name: digest_content(content) for name, content in present.items()},
        flags=_find_flags(project, chosen) or chosen.flags,
        at=datetime.now(UTC),
    )
    if not present or draft.files == chosen.files:
        return None
    store.keep(draft, present, identify_checkout(project))
    return draft.id


def _write(
    store: AttemptStore,
    project: Path,
    chosen: Attempt,
    contents: dict[str, bytes],
    present: dict[str, bytes],
) -> tuple[str, ...]:
    """Write the files that differ; what was changed since ``present`` was kept is kept again."""
    written: list[str] = []
    for name, content in contents.items():
        path = _resolve(project, name)
        if present.get(name) == content:
            continue
        try:
            found = exchange_file(path, content)
        except OSError as error:
            cure = describe_write_cure(error, "make it writable")
            done = f"; {', '.join(written)} were written" if written else ""
            raise BadValueError(
                f"{name} was not restored: {(error.strerror or '').lower()}; {cure}{done}"
            ) from error
        written.append(name)
        if found not in (None, present.get(name), content):
            _keep_or_return(store, project, chosen, {**contents, name: found}, name)
    return tuple(written)


def _keep_or_return(
    store: AttemptStore, project: Path, chosen: Attempt, state: dict[str, bytes], name: str
) -> None:
    """Keep a state with one file that was saved during the restore, or write that file back."""
    try:
        _keep(store, project, chosen, state)
    except DatabaseError as error:
        exchange_file(_resolve(project, name), state[name])
        raise BadValueError(
            f"{name} was saved meanwhile, cannot be kept, and is there again: {error}"
        ) from error


def _make_event(project: Path, chosen: Attempt, written: tuple[str, ...]) -> AttemptEvent:
    return create_event(
        attempt=chosen.id,
        kernel=chosen.kernel,
        kind="restore",
        origin=identify_checkout(project),
        found=f"restored {', '.join(written)}" if written else "was there already",
    )


def _find_flags(project: Path, chosen: Attempt) -> tuple[str, ...] | None:
    try:
        kernel = load_kernel(chosen.kernel, project).kernel
        return select_variant(kernel, chosen.target, chosen.variant).flags
    except KbError:  # the kernel or the variant is gone
        return None
