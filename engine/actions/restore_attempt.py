"""Writes a state of a variant back, after keeping what is there now."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from kernelkb.actions.attempts import find_best_attempt
from kernelkb.actions.bench_target import get_project_path
from kernelkb.actions.keep_attempts import find_parent, identify_checkout
from kernelkb.errors import BadValueError, KbError
from kernelkb.loading.kernels import load_kernel, select_variant
from kernelkb.model.attempt import Attempt, AttemptEvent, AttemptId
from kernelkb.record.attempts.rows import create_attempt, create_event, digest_content
from kernelkb.record.attempts.store import AttemptStore, open_attempts
from kernelkb.record.attempts.views import RestoredAttempt
from kernelkb.safety.exchange_files import exchange_file
from kernelkb.safety.storage import describe_write_cure
from kernelkb.safety.workspace import read_bytes, resolve_inside


def restore_attempt(word: str | None = None, kernel: str | None = None) -> RestoredAttempt:
    """Write the files of an attempt back, byte for byte.

    What is there now is kept first. A file that changes meanwhile is kept, too: each file
    changes places with the one that is there, and that one is read afterwards.

    Args:
        word: Id of the attempt, or its beginning; None: the fastest one of ``kernel``.
        kernel: The kernel of that one.

    Raises:
        UnknownNameError: No such attempt, or its files were not kept here.
        BadValueError: Neither is given, or a file cannot be written.
        DatabaseError: The database fails; no file was changed.
    """
    project = get_project_path()
    with open_attempts(project) as store:
        if word is None and kernel is None:
            raise BadValueError("name an attempt: kb restore ID, or kb restore --best KERNEL")
        chosen = store.find(word or find_best_attempt(store, kernel or ""))
        contents = {name: store.read_file(key) for name, key in chosen.files.items()}
        paths = {name: _resolve(project, name) for name in contents}
        kept = _keep_present(store, project, chosen, paths)
        written = _write(store, project, chosen, contents, paths)
        store.add((), [_make_event(project, chosen, written)])
    flags = _find_flags(project, chosen)
    return RestoredAttempt(chosen, kept, written, flags is not None and flags != chosen.flags)


def _resolve(project: Path, name: str) -> Path:
    """Return the path of a file; an imported attempt may name any."""
    path = Path(resolve_inside((project / name).resolve(), to_write=True))
    if not path.is_relative_to(project.resolve()):
        raise BadValueError(f"{name} lies outside the project; nothing was written")
    return path


def _keep_present(
    store: AttemptStore, project: Path, chosen: Attempt, paths: dict[str, Path]
) -> AttemptId | None:
    present = {name: read_bytes(path) for name, path in paths.items() if path.is_file()}
    return _keep(store, project, chosen, present)


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
    if draft.id in store.get_many([draft.id]):
        return draft.id
    parent = find_parent(store, project, draft, present)
    store.add([draft.model_copy(update={"parent": parent})], (), present.values())
    return draft.id


def _write(
    store: AttemptStore,
    project: Path,
    chosen: Attempt,
    contents: dict[str, bytes],
    paths: dict[str, Path],
) -> tuple[str, ...]:
    """Write the files that differ; what was changed since they were kept is kept again."""
    written: list[str] = []
    for name, content in contents.items():
        path = paths[name]
        before = read_bytes(path) if path.is_file() else None
        if before == content:
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
        if found is not None and found != before:
            _keep(store, project, chosen, {**contents, name: found})
    return tuple(written)


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
