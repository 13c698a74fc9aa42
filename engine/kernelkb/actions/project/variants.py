"""Adds a variant to a kernel: copies the file of another one, and registers it in kernel.yaml."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.errors import BadValueError, KbError, NextStep, UnknownNameError
from kernelkb.loading.kernels import KernelFolder, insert_variant, load_kernel, load_kernel_folder
from kernelkb.loading.located import parse_yaml
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.model.base import Name, Record, Slug, Target
from kernelkb.model.kernels.kernel import Kernel, Variant
from kernelkb.safety.files import replace_file
from kernelkb.safety.paths import shipped_folder
from kernelkb.safety.storage import describe_write_cure
from kernelkb.safety.workspace import may_write, read_bytes, read_text, resolve_inside

_VARIANT_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_INCLUDE = re.compile(
    r'^(?P<before>[ \t]*#[ \t]*include[ \t]+")(?P<path>[^"\n]+)(?P<after>")', re.MULTILINE
)
_SOURCE_SUFFIXES = (".cu", ".cpp", ".cc", ".c", ".cxx")
"""Of a file that is included whole: a launcher of ``kb init`` includes the kernel's own source."""


class AddedVariant(Record):
    """A variant that was added, and what to do with it."""

    kernel: Name
    variant: Slug
    target: Target
    source: Slug
    """The variant that it is a copy of."""
    path: str
    """The file to change, relative to the project."""
    written: tuple[str, ...]
    """All files that were written or changed, relative to the project."""

    @property
    def next_step(self) -> NextStep:
        """The command that times it against the variant that it is a copy of."""
        which = {"kernel": self.kernel, "variant": self.variant, "target": self.target}
        return NextStep("bench", {**which, "against": self.source}, "times it beside its origin")


def add_variant(
    kernel: str, name: str, source: str | None = None, target: TargetChoice = "auto"
) -> AddedVariant:
    """Copy a variant's file and register it under another name.

    A kernel that ships with KernelKB is copied into the project first. A name that is the id of a
    fix, as ``vectorize-128b`` or ``vectorize-128b-2``, says that the variant applies it.

    Args:
        kernel: The kernel's name.
        name: Id of the new variant, in words with hyphens; it names the file, too.
        source: The variant to copy; None: the first one of the target.
        target: The target of both; ``auto``: that of the only variant called ``source``.

    Raises:
        UnknownNameError: There is no such kernel or variant.
        BadValueError: The name is taken or not valid, the target is not clear, or a file cannot be
            written.
        KnowledgeError: The kernel.yaml is wrong.
    """
    project = get_project_path()
    folder = load_kernel(kernel, project)
    origin = _find_origin(folder.kernel, source, target)
    _check_name(folder, name, origin)
    copied = [] if _is_inside(folder.folder, project) else _copy_into(project, folder)
    if copied:
        folder = load_kernel_folder(_place_in(project, folder.folder))
    files, written = _copy_source(folder, origin, name), [*copied]
    entry = _draft_entry(folder, origin, name, next(iter(files)))
    for file, text in {**files, "kernel.yaml": entry}.items():
        _write(folder.folder / file, text)
        written.append(os.path.relpath(folder.folder / file, project))
    return AddedVariant(
        kernel=folder.kernel.id,
        variant=name,
        target=origin.target,
        source=origin.id,
        path=os.path.relpath(folder.folder / list(files)[-1], project),
        written=tuple(dict.fromkeys(written)),
    )


def list_unchanged_copies(folder: KernelFolder) -> set[tuple[str, str]]:
    """Return target and id of the variants whose file is that of an earlier one: not edited yet."""
    seen: set[tuple[str, bytes]] = set()
    found: set[tuple[str, str]] = set()
    for variant in folder.kernel.variants:
        key = (variant.target, _read_whole(folder, variant))
        if key in seen:
            found.add((variant.target, variant.id))
        seen.add(key)
    return found


def choose_variant_name(kernel: Kernel, wanted: str, target: str) -> str:
    """Return a name for a variant that is free on a target: the wanted one, or with a number."""
    taken = {variant.id for variant in kernel.variants if variant.target == target}
    numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
    return wanted if wanted not in taken else next(one for one in numbered if one not in taken)


def _find_origin(kernel: Kernel, source: str | None, target: TargetChoice) -> Variant:
    choices = [v for v in kernel.variants if target in ("auto", v.target)]
    named = [v for v in choices if source in (None, v.id)]
    if not named:
        kind = f"variant of {kernel.id}"
        raise UnknownNameError(
            kind, source or target, (v.id for v in choices), "show", id=kernel.id
        )
    targets = sorted({v.target for v in named})
    if len(targets) > 1:
        both = " and ".join(targets)
        what = source or "variants"
        raise BadValueError(f"{kernel.id} has {what} for {both}; name the target of the new one")
    return named[0]


def _check_name(folder: KernelFolder, name: str, origin: Variant) -> None:
    if not may_write():
        raise BadValueError("this server writes no files; start it without --read-only")
    if not _VARIANT_NAME.fullmatch(name) or len(name) > 60:
        raise BadValueError(f"{name!r} is no name of a variant; write words with hyphens: two-rows")
    if any((v.target, v.id) == (origin.target, name) for v in folder.kernel.variants):
        free = choose_variant_name(folder.kernel, name, origin.target)
        raise BadValueError(
            f"{folder.kernel.id} has a variant {name}; take {free}, or edit that one"
        )


def _list_applied(name: str, origin: Variant) -> list[str]:
    fixes = load_compiled_rules()["fixes"]
    fix = name if name in fixes else re.sub(r"-\d+$", "", name)
    return [*origin.applies, fix] if fix in fixes and fix not in origin.applies else []


def _draft_entry(folder: KernelFolder, origin: Variant, name: str, file: str) -> str:
    """Return the text of kernel.yaml with the new variant.

    Raises:
        KbError: It would not be valid.
    """
    path = folder.folder / "kernel.yaml"
    changes = {"id": name, "source": file, "summary": f"{origin.id} with {name}"}
    if applies := _list_applied(name, origin):
        changes["applies"] = f"[{', '.join(applies)}]"
    text = insert_variant(read_text(path), folder.kernel.variants.index(origin), changes)
    kernel, _, problems = parse_yaml(text, Kernel, str(path))
    if kernel is None or len(kernel.variants) != len(folder.kernel.variants) + 1:
        why = f": {problems[0]}" if problems else ""
        raise KbError(f"{path} would not be valid with {name}{why}; add the variant by hand")
    return text


def find_included_source(source: Path) -> Path | None:
    """Return the source that another one includes whole, as the launchers of ``kb init`` do.

    Args:
        source: A file of C++ or CUDA; of another language nothing is returned.
    """
    try:
        text = read_text(source, errors="replace")
    except (OSError, KbError):
        return None
    paths = (source.parent / found["path"] for found in _INCLUDE.finditer(text))
    whole = (path.resolve() for path in paths if path.suffix in _SOURCE_SUFFIXES)
    return next((path for path in whole if path.is_file()), None)


def list_copied_files(folder: KernelFolder, origin: Variant, name: str) -> dict[Path, Path]:
    """Return the files that a copy of a variant gets, by those they are copied from.

    The last one holds the kernel: the variant's source, or the source that this one includes.

    Args:
        folder: Of the kernel.
        origin: The variant.
        name: Of its copy.
    """
    source = (folder.folder / origin.source).resolve()
    files = {source: folder.folder / f"{name}{source.suffix}"}
    if (included := find_included_source(source)) is not None:
        files[included] = folder.folder / f"{name}_{included.name}"
    return files


def _copy_source(folder: KernelFolder, origin: Variant, name: str) -> dict[str, str]:
    """Return the text of each new file by its name; includes are written anew for its folder.

    Raises:
        BadValueError: A file of that name exists, or one cannot be read.
    """
    copies = list_copied_files(folder, origin, name)
    for copy in copies.values():
        if copy.exists():
            raise BadValueError(f"{copy} exists already; take another name")
    return {copy.name: _move_includes(_read(old), old, copies) for old, copy in copies.items()}


def _move_includes(text: str, old: Path, copies: Mapping[Path, Path]) -> str:
    """Return a source for the folder of its copy: its includes lead to the same files, or copies.

    An include that is found in a folder of the compiler stays.
    """
    home = next(iter(copies.values())).parent.resolve()

    def rewrite(found: re.Match[str]) -> str:
        target = (old.parent / found["path"]).resolve()
        if not target.is_file():
            return found[0]
        path = Path(os.path.relpath(copies.get(target, target), home)).as_posix()
        return f"{found['before']}{path}{found['after']}"

    return _INCLUDE.sub(rewrite, text)


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise BadValueError(f"cannot read {path}: {error}") from error


def _read_whole(folder: KernelFolder, variant: Variant) -> bytes:
    """Return a variant's source, with the sources that it includes, and its flags."""
    files = list_copied_files(folder, variant, "copy")
    copies = {old: folder.folder / f"copy-{number}" for number, old in enumerate(files)}
    try:
        texts = [_move_includes(read_text(old, "replace"), old, copies) for old in copies]
    except (OSError, KbError):
        return os.urandom(16)  # unreadable files are not compared
    return repr((texts, variant.flags, variant.also, variant.entry)).encode()


def _is_inside(folder: Path, project: Path) -> bool:
    return folder.resolve().is_relative_to(project.resolve())


def _place_in(project: Path, shipped: Path) -> Path:
    return (
        project
        / "kernels"
        / shipped.resolve().relative_to(Path(shipped_folder("kernels")).resolve())
    )


def _copy_into(project: Path, folder: KernelFolder) -> list[str]:
    """Copy a shipped kernel's folder into the project; return the files, relative to it."""
    written: list[str] = []
    for path in _iter_files(folder):
        place = _place_in(project, path)
        if not place.exists():
            _write(place, read_bytes(path))
            written.append(os.path.relpath(place, project))
    return written


def _iter_files(folder: KernelFolder) -> Iterator[Path]:
    """Yield the files of a kernel's folder, and those beside it that its kernel.yaml names."""
    yield from sorted(p for p in folder.folder.iterdir() if p.is_file() and p.name[0] != ".")
    kernel = folder.kernel
    named: list[str | None] = [name for v in kernel.variants for name in (v.source, *v.also)]
    named += [kernel.reference.file, *(b.file for b in kernel.baselines)]
    beside = (name for name in dict.fromkeys(named) if name and name.startswith("../"))
    yield from (folder.folder / name for name in beside)


def _write(path: Path, body: str | bytes) -> None:
    try:
        resolve_inside(path, to_write=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, body)
    except OSError as error:
        cure = describe_write_cure(error, "name a project that you may write to")
        raise BadValueError(f"cannot write {path}: {error.strerror}; {cure}") from error
