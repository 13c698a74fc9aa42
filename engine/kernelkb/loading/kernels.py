"""Finds and validates kernel folders: the project's, then the shipped ones."""

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
from kernelkb.model.kernels.kernel import Kernel, Variant
from kernelkb.safety.compiler_flags import find_disallowed_flag
from kernelkb.safety.kernel_name import read_kernel_name
from kernelkb.safety.paths import project_root, shipped_folder
from kernelkb.safety.workspace import list_readable_folders, read_bytes, read_text


class KernelFolder(NamedTuple):
    """A validated kernel.yaml and the folder that holds it."""

    kernel: Kernel
    folder: Path


def find_kernel_folders(project: Path | None = None) -> dict[str, Path]:
    """Return every kernel folder by name; a project's folder hides a shipped one of that name."""
    root = project or Path(project_root())
    folders: dict[str, Path] = {}
    for base in (Path(shipped_folder("kernels")), root / "kernels"):
        for path in sorted(base.glob("*/kernel.yaml")):
            folders[path.parent.name] = path.parent
    return folders


def find_zoo_folders(project: Path | None = None) -> dict[str, Path]:
    """Return every folder of ``kernels/zoo/<bottleneck>/`` by name: pairs of one change each."""
    root = project or Path(project_root())
    folders: dict[str, Path] = {}
    for base in (Path(shipped_folder("kernels")), root / "kernels"):
        for path in sorted(base.glob("zoo/*/*/kernel.yaml")):
            folders[path.parent.name] = path.parent
    return folders


def load_kernel(name: str, project: Path | None = None) -> KernelFolder:
    """Load one kernel.

    Args:
        name: The folder's name below ``kernels/`` or ``kernels/zoo/<bottleneck>/``, or a path of
            it; see ``kernelkb.safety.kernel_name``.
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


def select_variant(kernel: Kernel, target: Target, name: str | None = None) -> Variant:
    """Return the named variant for a target, or the first one, which is the simplest.

    Raises:
        UnknownNameError: The kernel has no such variant for this target.
        BadValueError: The kernel has no variant for this target.
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
    """Return the value of an arithmetic expression of the axes, such as ``2 * m * n * k``.

    Args:
        expression: Arithmetic with the axes' names, ``min`` and ``max``.
        sizes: The size of each axis, in elements.

    Raises:
        ValueError: The expression is not arithmetic, names another axis, or is not finite.
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
