"""Sets up KernelKB in a project (``kb init``): finds the kernel and drafts its folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.bench_target import validate_machine
from kernelkb.actions.foreign_tasks import make_task_files
from kernelkb.actions.project_files import write_project
from kernelkb.errors import BadValueError
from kernelkb.loading.kernel_files import FILL_IN_MARK
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.model.base import Name, Record, Target
from kernelkb.safety.paths import project_root, shipped_folder
from kernelkb.scaffold.c_source import defines_any, summarize_source
from kernelkb.scaffold.call_signature import SourceSummary
from kernelkb.scaffold.kernel_yaml import (
    choose_function,
    draft_c_files,
    draft_extension_files,
    draft_python_files,
)
from kernelkb.scaffold.launchers import to_field_name

_COMPILED_SUFFIXES = (".cu", ".cpp", ".cc")
_SOURCE_SUFFIXES = (*_COMPILED_SUFFIXES, ".py")
_SKIPPED_FOLDERS = (
    ".git",
    ".venv",
    "venv",
    "node_modules",
    "build",
    "dist",
    ".kb",
    "__pycache__",
)
_MAX_FILES = 5000
"""Files that the search for a kernel looks at, so that a home folder does not take minutes."""


class InitResult(Record):
    """The files that ``kb init`` wrote and kept, and what is left to fill in."""

    kernel: Name
    root: str
    """The project's folder."""
    written: tuple[str, ...]
    """New files, relative to ``root``."""
    kept: tuple[str, ...]
    """Files that existed and were not changed, relative to ``root``."""
    warnings: tuple[str, ...] = ()
    """Further kernels in the file, a shipped kernel that is hidden, an entry that was not added."""
    to_fill: tuple[str, ...]
    """Lines with a FILL_IN mark, as ``file:line: text``; empty when the kernel can be measured."""
    next: str
    """The next command."""


class _KernelSource(NamedTuple):
    """A kernel's source, and the project and name of its kernel folder."""

    path: Path
    analysis: SourceSummary
    root: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.root / "kernels" / self.name

    def path_from_folder(self, path: Path) -> str:
        """Return a path relative to the kernel folder, with forward slashes."""
        return Path(os.path.relpath(path.resolve(), self.folder.resolve())).as_posix()


def init_project(
    file: str | None = None,
    candidate: str | None = None,
    target: TargetChoice = "auto",
    name: str | None = None,
) -> InitResult:
    """Write a kernel folder, sessions, the ignore file, the overlay and the client's entry.

    Existing files are never overwritten.

    Args:
        file: The kernel's source, or a KernelBench task; by default the project's only kernel.
        candidate: For a task, the file with ``ModelNew``.
        target: Where it will run; ``auto`` depends on the source, for a task on the machine.
        name: The kernel's name; by default the file's.

    Raises:
        BadValueError: There is no kernel, more than one, or a folder of that name that was made
            from another source.
    """
    source = _find_source(file, name)
    if source.analysis.kind in ("kernelbench", "candidate"):
        files, warnings = _draft_task_pair(source, candidate, target)
    else:
        files, warnings = _draft_files(source, target)
    _refuse_other_source(source, files)
    done = write_project(
        source.root, {f"kernels/{source.name}/{n}": text for n, text in files.items()}
    )
    marks = tuple(_find_marks(source.folder))
    bench = f"kb bench {source.name}"
    return InitResult(
        kernel=source.name,
        root=str(source.root),
        written=tuple(done.new),
        kept=tuple(done.existing),
        warnings=(*warnings, *_list_shadow_warnings(source), *done.warnings),
        to_fill=marks,
        next=f"fill in the marks, then {bench}" if marks else bench,
    )


def _find_source(file: str | None, name: str | None) -> _KernelSource:
    root = Path(project_root())
    path = Path(file) if file else _find_only_kernel(root)
    summary = _analyze_file(path)
    if summary is None:
        raise BadValueError(
            f"{path} holds no kernel that kb init recognises: no __global__ function, no "
            f'extern "C" function, no triton.jit, no PYBIND11_MODULE, no Model with get_inputs'
        )
    if name and to_field_name(name) != name:
        raise BadValueError(
            f"--name {name!r} is not a valid kernel name; try --name {to_field_name(name)}"
        )
    return _KernelSource(path, summary, root, name or to_field_name(path.stem))


def _analyze_file(path: Path) -> SourceSummary | None:
    return summarize_source(path.name, _read_text(path))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadValueError(f"cannot read {path}: {error.strerror}") from error


def _find_only_kernel(root: Path) -> Path:
    kernels = [path for path in _iter_sources(root) if _analyze_file(path) is not None]
    if not kernels:
        raise BadValueError(f"no kernel found below {root}; name its source: kb init FILE")
    if len(kernels) > 1:
        names = ", ".join(str(path.relative_to(root)) for path in kernels[:8])
        raise BadValueError(f"{len(kernels)} files hold kernels; name one: kb init FILE ({names})")
    return kernels[0]


def _iter_sources(root: Path) -> Iterator[Path]:
    count = 0
    for folder, subfolders, names in os.walk(root):
        if "kernel.yaml" in names:  # a kernel folder of KernelKB
            subfolders.clear()
            continue
        subfolders[:] = sorted(name for name in subfolders if name not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            count += 1
            if name.endswith(_SOURCE_SUFFIXES) and count <= _MAX_FILES:
                yield Path(folder) / name


def _draft_files(source: _KernelSource, wanted: TargetChoice) -> tuple[dict[str, str], list[str]]:
    """Return the text of each drafted file by name, and warnings about kernels left out."""
    path, summary, _, name = source
    if not summary.functions:
        raise BadValueError(f"{path} has a kernel, but no function that launches it")
    include = source.path_from_folder(path)
    target = _resolve_target(source, wanted)
    if summary.kind == "torch-extension":
        others = _find_definers(source)
        if wanted == "auto" and any(other.suffix == ".cu" for other in others):
            target = "cuda"
        paths = [source.path_from_folder(other) for other in others]
        return draft_extension_files(name, summary, include, paths, target), []
    chosen = choose_function(summary)
    others_of_kind = [
        f.name for f in summary.functions if f != chosen and f.is_kernel == chosen.is_kernel
    ]
    text = f"{path.name} also holds {', '.join(others_of_kind)}; only {chosen.name} was drafted"
    warnings = [text] if others_of_kind else []
    if summary.kind == "triton":
        return draft_python_files(name, summary, include), warnings
    return draft_c_files(name, summary, include, target), warnings


def _resolve_target(source: _KernelSource, wanted: TargetChoice) -> Target:
    """Return the wanted target, or the source's own for ``auto``.

    Raises:
        BadValueError: The source cannot run there.
    """
    path, summary, _, _ = source
    if wanted == "auto":
        return summary.target
    if wanted == "cpu" and (path.suffix == ".cu" or summary.kind == "triton"):
        language = "Triton" if summary.kind == "triton" else "CUDA"
        raise BadValueError(f"{path} is {language}, which needs a GPU; leave --target cpu out")
    return wanted


def _find_definers(source: _KernelSource) -> list[Path]:
    """List the files with the functions that an extension only declares; below its folder first."""
    path, summary, root, _ = source
    if not summary.missing_functions:
        return []
    candidates = [
        p
        for p in _iter_sources(root)
        if p.suffix in _COMPILED_SUFFIXES and p.resolve() != path.resolve()
    ]
    names = summary.missing_functions
    definers = [p.resolve() for p in candidates if defines_any(_read_text(p), names)]
    return [p for p in definers if p.is_relative_to(path.resolve().parent)] or definers


def _draft_task_pair(
    source: _KernelSource, candidate: str | None, wanted: TargetChoice
) -> tuple[dict[str, str], list[str]]:
    if candidate is None or source.analysis.kind == "candidate":
        raise BadValueError(
            "a KernelBench task needs its candidate too: kb init TASK.py --candidate MINE.py"
        )
    target = validate_machine().target if wanted == "auto" else wanted
    task = make_task_files(source.path, Path(candidate), None, target)
    renamed = re.sub(r"\Aid: .*", f"id: {source.name}", task.files["kernel.yaml"])
    return {**task.files, "kernel.yaml": renamed}, list(task.warnings)


def _refuse_other_source(source: _KernelSource, files: dict[str, str]) -> None:
    """Check that an existing kernel folder was made from this source: existing files are kept.

    Raises:
        BadValueError: The folder was made from another source, or from an older candidate.
    """
    names = [n for n in files if n != "reference.py" and (source.folder / n).is_file()]
    existing = {n: _read_text(source.folder / n) for n in names}
    if not existing:
        return
    if source.analysis.kind == "kernelbench":
        same = all(existing.get(n) == files[n] for n in ("task.py", "candidate.py"))
    else:
        quoted = f'"{source.path_from_folder(source.path)}"'
        same = any(quoted in text for text in existing.values())
    if not same:
        other = to_field_name(f"{source.path.resolve().parent.name}_{source.path.stem}")
        raise BadValueError(
            f"kernels/{source.name} exists and was not made from the present {source.path}; "
            f"give another name, such as --name {other}, or delete that folder"
        )


def _list_shadow_warnings(source: _KernelSource) -> list[str]:
    shipped = Path(shipped_folder("kernels")) / source.name
    if not (shipped / "kernel.yaml").is_file() or shipped.resolve() == source.folder.resolve():
        return []
    return [
        f"kernels/{source.name} hides the kernel {source.name} that ships with KernelKB; "
        f"to use both, delete that folder and give --name"
    ]


def _find_marks(folder: Path) -> Iterator[str]:
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        for number, line in enumerate(_read_text(path).splitlines(), 1):
            if FILL_IN_MARK in line and not line.lstrip().startswith(("#", "//")):
                yield f"{path.name}:{number}: {line.strip()}"
