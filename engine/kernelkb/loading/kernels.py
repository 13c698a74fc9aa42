"""Finds, validates and writes kernel folders: the project's, then the shipped ones."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kernelkb.errors import (
    BadValueError,
    ForbiddenPathError,
    KbError,
    KnowledgeError,
    Problem,
    UnknownNameError,
)
from kernelkb.loading.located import locate_problem, read_yaml
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import Kernel, Variant, evaluate_axis_expression
from kernelkb.safety.compiler_flags import find_disallowed_flag
from kernelkb.safety.paths import project_root, read_kernel_name, shipped_folder
from kernelkb.safety.workspace import list_readable_folders, read_bytes, read_text

FILL_IN_MARK = "FILL_IN"
"""Stands in a generated kernel.yaml or launcher for a value that a person must fill in."""


class KernelFolder(NamedTuple):
    """A validated kernel.yaml and the folder that holds it."""

    kernel: Kernel
    folder: Path


def find_kernel_folders(project: Path | None = None) -> dict[str, Path]:
    """Return every kernel folder by name; a project's folder hides a shipped one of that name."""
    return _find_folders(project, "*/kernel.yaml")


def find_zoo_folders(project: Path | None = None) -> dict[str, Path]:
    """Return every folder of ``kernels/zoo/<bottleneck>/`` by name: pairs of one change each."""
    return _find_folders(project, "zoo/*/*/kernel.yaml")


def _find_folders(project: Path | None, pattern: str) -> dict[str, Path]:
    root = project or Path(project_root())
    bases = (Path(shipped_folder("kernels")), root / "kernels")
    paths = (path for base in bases for path in sorted(base.glob(pattern)))
    return {path.parent.name: path.parent for path in paths}


def load_kernel(name: str, project: Path | None = None) -> KernelFolder:
    """Load one kernel.

    Args:
        name: The folder's name below ``kernels/`` or ``kernels/zoo/<bottleneck>/``, or a path of
            it; see ``kernelkb.safety.paths``.
        project: The project's root; by default that of the working directory.

    Raises:
        UnknownNameError: There is no such kernel.
        KnowledgeError: Its kernel.yaml is invalid; carries every problem.
    """
    return load_kernel_folder(find_kernel_folder(name, project))


def find_kernel_folder(name: str, project: Path | None = None) -> Path:
    """Return the folder of one kernel; its kernel.yaml may be invalid.

    Args:
        name: See ``load_kernel``.
        project: The project's root; by default that of the working directory.

    Raises:
        UnknownNameError: There is no such kernel.
    """
    chosen = read_kernel_name(name)
    folders = find_kernel_folders(project)
    if chosen not in folders:
        folders = find_zoo_folders(project) | folders
    if chosen not in folders:
        raise UnknownNameError("kernel", name, folders, "show", id="kernels")
    return folders[chosen]


def load_kernel_folder(folder: Path) -> KernelFolder:
    """Load the kernel of a folder.

    Raises:
        KnowledgeError: Its kernel.yaml is invalid; carries every problem.
    """
    path = folder / "kernel.yaml"
    unfilled = _find_fill_in_marks(path)
    if unfilled:
        raise KnowledgeError(unfilled)
    kernel, marks, problems = read_yaml(path, Kernel)
    if kernel is not None:
        problems = [
            locate_problem(str(path), marks, loc, text)
            for loc, text in _find_mistakes(kernel, path.parent)
        ]
    if problems or kernel is None:
        raise KnowledgeError(problems)
    return KernelFolder(kernel, folder)


def load_kernel_without_files(folder: Path) -> Kernel:
    """Load the kernel.yaml of a folder whose sources may be absent.

    Raises:
        KnowledgeError: It is invalid; carries every problem.
    """
    kernel, _, problems = read_yaml(folder / "kernel.yaml", Kernel)
    if kernel is None:
        raise KnowledgeError(problems)
    return kernel


def select_variant(kernel: Kernel, target: Target, name: str | None = None) -> Variant:
    """Return the named variant for a target, or the first one, which is the simplest.

    Raises:
        UnknownNameError: The kernel has no such variant for this target.
        BadValueError: The kernel has no variant for this target.
    """
    variants = [variant for variant in kernel.variants if variant.target == target]
    if not variants:
        names = ", ".join(variant.id for variant in kernel.variants)
        other = "cuda" if target == "cpu" else "cpu"
        raise BadValueError(f"{kernel.id} has no {target} variant; it has {other}: {names}")
    for variant in variants:
        if name in (None, variant.id):
            return variant
    kind = f"{target} variant of {kernel.id}"
    raise UnknownNameError(
        kind, name or "", [variant.id for variant in variants], "show", id=kernel.id
    )


def _find_fill_in_marks(path: Path) -> list[Problem]:
    """Return a problem for each FILL_IN mark that ``kb init`` left."""
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError):
        return []  # read_yaml reports it
    return [
        Problem(
            str(path),
            number,
            line.index(FILL_IN_MARK) + 1,
            "",
            f"replace {FILL_IN_MARK}, which kb init left for you",
        )
        for number, line in enumerate(lines, 1)
        if FILL_IN_MARK in line.partition("#")[0]
    ]


def _find_file_problem(path: Path) -> str | None:
    """Return why a file that a kernel.yaml names cannot be read; None if it can."""
    if not path.is_file() and not path.is_symlink() and not path.exists():
        return f"no file {path.name!r} here"
    if list_readable_folders() is None:
        return None if path.is_file() else f"no file {path.name!r} here"
    try:
        read_bytes(path)
    except ForbiddenPathError as error:
        return str(error)
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"
    return None


def _find_flag_problems(
    kernel: Kernel, folder: Path
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for position, variant in enumerate(kernel.variants):
        disallowed = find_disallowed_flag(variant.flags, str(folder))
        if disallowed is not None:
            index, reason = disallowed
            yield ("variants", position, "flags", index), reason


def _find_mistakes(kernel: Kernel, folder: Path) -> list[tuple[tuple[str | int, ...], str]]:
    """List mistakes that a schema does not detect: absent files, flags, invalid expressions."""
    mistakes: list[tuple[tuple[str | int, ...], str]] = []
    if kernel.id != folder.name:
        mistakes.append((("id",), f"{kernel.id!r} must equal the folder's name, {folder.name!r}"))
    files: list[tuple[tuple[str | int, ...], str]] = []
    for field in ("file", "recorded"):
        name = getattr(kernel.reference, field)
        files += [(("reference", field), name)] if name is not None else []
    for field, rows in (("variants", kernel.variants), ("baselines", kernel.baselines)):
        for position, row in enumerate(rows):
            last = "source" if field == "variants" else "file"
            names = (getattr(row, last), *getattr(row, "also", ()))
            files += [((field, position, last), name) for name in names]
    files += [(("extra_cases", at, "file"), c.file) for at, c in enumerate(kernel.extra_cases)]
    mistakes += [(loc, text) for loc, name in files if (text := _find_file_problem(folder / name))]
    mistakes += _find_flag_problems(kernel, folder)
    for field in ("bytes", "flops") if kernel.cost else ():
        for sizes in kernel.workloads.values():
            try:
                value = evaluate_axis_expression(getattr(kernel.cost, field), sizes)
            except ValueError as error:
                mistakes.append((("cost", field), str(error)))
                break
            if value <= 0:
                mistakes.append((("cost", field), f"must be positive, is {value:g} for {sizes}"))
                break
    return mistakes


class KernelFiles(NamedTuple):
    """The text of a kernel folder's files, not on disk yet."""

    id: str
    """The kernel's id, and the folder's name."""
    files: dict[str, str]
    """Text by file name; one is kernel.yaml."""
    warnings: tuple[str, ...]

    def write(self, root: Path) -> Path:
        """Write the folder to ``root/<digest of its content>/<id>`` and return its path.

        Folders with other content stay.
        """
        digest = hashlib.sha256("\0".join(sorted(self.files.values())).encode()).hexdigest()[:12]
        folder = root / digest / self.id
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        return folder


def to_snake_case(text: str) -> str:
    """Return a snake_case name for an axis or a kernel, at most 60 characters."""
    words = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:58]
    return words if words[:1].isalpha() else f"k_{words}"


def to_slug(text: str) -> str:
    """Return a kebab-case name for a workload or a variant, at most 52 characters."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50].strip("-")
    return words if words[:1].isalpha() else f"w-{words}"


def dump_kernel_yaml(kernel: dict[str, Any]) -> str:
    """Return the text of a kernel.yaml, keys in the given order."""
    return yaml.safe_dump(kernel, sort_keys=False, width=100, default_flow_style=None)


def insert_variant(text: str, position: int, changes: Mapping[str, str]) -> str:
    """Return the text with one more variant, behind the last one: a copy of one with other fields.

    Args:
        text: Of a valid kernel.yaml.
        position: Of the variant to copy, among all variants.
        changes: Fields that differ, each with its value as YAML on one line; a field that the copy
            lacks is added.

    Raises:
        KbError: The text has no list of variants, or none at that position.
    """
    variants = _find_variants(text)
    if position >= len(variants.value):
        raise KbError(f"kernel.yaml lists {len(variants.value)} variants, no number {position + 1}")
    entry = variants.value[position]
    last = variants.value[-1]
    if variants.flow_style:
        copy = _change_fields(text, entry, changes, ", ")
        return _splice(text, last.end_mark.index, f", {copy}")
    dash = text.rindex("-", 0, last.start_mark.index)
    margin = text[text.rfind("\n", 0, dash) + 1 : dash]
    gap = text[dash + 1 : last.start_mark.index]
    inner = "\n" + " " * entry.start_mark.column
    copy = _change_fields(text, entry, changes, ", " if entry.flow_style else inner)
    return _splice(text, _find_line_end(text, _find_end(text, last)), f"\n{margin}-{gap}{copy}")


def _find_variants(text: str) -> yaml.SequenceNode:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    fields = root.value if isinstance(root, yaml.MappingNode) else []
    for key, value in fields:
        if key.value == "variants" and isinstance(value, yaml.SequenceNode) and value.value:
            return value
    raise KbError("kernel.yaml has no list of variants")


def _change_fields(
    text: str, entry: yaml.MappingNode, changes: Mapping[str, str], separator: str
) -> str:
    """Return the text of an entry with other values."""
    start, end = entry.start_mark.index, _find_end(text, entry)
    copy = text[start:end]
    left = dict(changes)
    spans = [(key.value, value) for key, value in entry.value if key.value in left]
    for name, value in reversed(spans):
        first, last = value.start_mark.index - start, _find_end(text, value) - start
        copy = f"{copy[:first]}{left.pop(name)}{copy[last:]}"
    more = "".join(f"{separator}{name}: {value}" for name, value in left.items())
    if entry.flow_style:
        return f"{copy[:-1].rstrip()}{more}}}"
    return copy + more


def _find_end(text: str, node: yaml.Node) -> int:
    """Return where a node's text ends; a block's end mark lies behind the comments after it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
    end: int = node.end_mark.index
    is_block_text = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    return len(text[:end].rstrip()) if is_block_text else end


def _find_line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _splice(text: str, at: int, added: str) -> str:
    return text[:at] + added + text[at:]
