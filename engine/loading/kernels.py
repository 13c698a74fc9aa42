"""Find and read kernel.yaml: the project's own kernels first, then the shipped ones."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from simpleeval import InvalidExpression, SimpleEval

from kernelkb.errors import (
    BadValueError,
    ForbiddenPathError,
    KnowledgeError,
    Problem,
    UnknownNameError,
)
from kernelkb.loading.kernel_files import FILL_IN_MARK
from kernelkb.loading.located import locate_problem, read_yaml
from kernelkb.model.base import Target
from kernelkb.model.kernel import Kernel, Variant
from kernelkb.safety.compiler_flags import find_disallowed_flag
from kernelkb.safety.paths import project_root, shipped_folder
from kernelkb.safety.workspace import list_readable_folders, read_bytes, read_text


class KernelFolder(NamedTuple):
    """A kernel and where its files are."""

    kernel: Kernel
    folder: Path


def find_kernel_folders(project: Path | None = None) -> dict[str, Path]:
    """Return every kernel folder by name; the project's own hide shipped ones of that name."""
    root = project or Path(project_root())
    found: dict[str, Path] = {}
    for base in (Path(shipped_folder("kernels")), root / "kernels"):
        for path in sorted(base.glob("*/kernel.yaml")):
            found[path.parent.name] = path.parent
    return found


def load_kernel(name: str, project: Path | None = None) -> KernelFolder:
    """Load one kernel.

    Args:
        name: The folder's name below ``kernels/``.
        project: The project's root; found from the working directory by default.

    Raises:
        UnknownNameError: There is no such kernel.
        KnowledgeError: Its kernel.yaml is wrong; carries every complaint.
    """
    found = find_kernel_folders(project)
    if name not in found:
        raise UnknownNameError("kernel", name, found, "show", id="kernels")
    return load_kernel_folder(found[name])


def load_kernel_folder(folder: Path) -> KernelFolder:
    """Load the kernel of a folder.

    Raises:
        KnowledgeError: Its kernel.yaml is wrong; carries every complaint.
    """
    path = folder / "kernel.yaml"
    left = _find_fill_in_marks(path)
    if left:
        raise KnowledgeError(left)
    kernel, marks, problems = read_yaml(path, Kernel)
    if kernel is not None:
        problems = [
            locate_problem(str(path), marks, loc, text)
            for loc, text in _find_mistakes(kernel, path.parent)
        ]
    if problems or kernel is None:
        raise KnowledgeError(problems)
    return KernelFolder(kernel, folder)


def select_variant(kernel: Kernel, target: Target, name: str | None = None) -> Variant:
    """Return the named variant for a target, or the first one, which is the plain one.

    Raises:
        UnknownNameError: The kernel has no such variant for this target.
        BadValueError: It has none at all for this target.
    """
    choices = [v for v in kernel.variants if v.target == target]
    if not choices:
        names = ", ".join(v.id for v in kernel.variants)
        other = "cuda" if target == "cpu" else "cpu"
        raise BadValueError(f"{kernel.id} has no {target} variant; it has {other}: {names}")
    for variant in choices:
        if name in (None, variant.id):
            return variant
    kind = f"{target} variant of {kernel.id}"
    raise UnknownNameError(kind, name or "", (v.id for v in choices), "show", id=kernel.id)


def evaluate_axis_expression(expression: str, sizes: Mapping[str, int]) -> float:
    """Return the value of an arithmetic expression of the axes.

    Raises:
        ValueError: The expression is not arithmetic over the given names.
    """
    evaluator = SimpleEval(names=dict(sizes), functions={"min": min, "max": max})
    try:
        ast.parse(expression, mode="eval")  # simpleeval alone would take statements too
        value = evaluator.eval(expression)
        finite = isinstance(value, int | float) and math.isfinite(value)
    except (InvalidExpression, SyntaxError, TypeError, ArithmeticError) as error:
        raise ValueError(f"{expression!r} is not an expression of the axes: {error}") from error
    if not finite:
        raise ValueError(f"{expression!r} is not an expression of the axes: it gives {value!r}")
    return float(value)


def _find_fill_in_marks(path: Path) -> list[Problem]:
    """Return the marks that ``kb init`` left for a person."""
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError):
        return []  # reading it again says why
    return [
        Problem(
            str(path),
            number,
            line.index(FILL_IN_MARK) + 1,
            "",
            f"{FILL_IN_MARK}: only you know what goes here",
        )
        for number, line in enumerate(lines, 1)
        if FILL_IN_MARK in line.partition("#")[0]
    ]


def _find_file_problem(path: Path) -> str | None:
    """Say why a file that a kernel.yaml names cannot be had."""
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
        wrong = find_disallowed_flag(variant.flags, str(folder))
        if wrong is not None:
            yield ("variants", position, "flags", wrong[0]), wrong[1]


def _find_mistakes(kernel: Kernel, folder: Path) -> list[tuple[tuple[str | int, ...], str]]:
    """List what a schema cannot see: files that are absent, expressions that do not evaluate."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    if kernel.id != folder.name:
        found.append((("id",), f"{kernel.id!r} must equal the folder's name, {folder.name!r}"))
    files: list[tuple[tuple[str | int, ...], str]] = []
    files.append((("reference", "file"), kernel.reference.file))
    for field, rows in (("variants", kernel.variants), ("baselines", kernel.baselines)):
        for position, row in enumerate(rows):
            last = "source" if field == "variants" else "file"
            names = (getattr(row, last), *getattr(row, "also", ()))
            files += [((field, position, last), name) for name in names]
    found += [(loc, said) for loc, name in files if (said := _find_file_problem(folder / name))]
    found += _find_flag_problems(kernel, folder)
    for field in ("bytes", "flops") if kernel.cost else ():
        for sizes in kernel.workloads.values():
            try:
                value = evaluate_axis_expression(getattr(kernel.cost, field), sizes)
            except ValueError as error:
                found.append((("cost", field), str(error)))
                break
            if value <= 0:
                found.append((("cost", field), f"must be positive, is {value:g} for {sizes}"))
                break
    return found
