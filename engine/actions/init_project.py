"""Begin in a project that is somebody else's: find the kernel, write what KernelKB needs."""

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


class InitResult(Record):
    """What ``kb init`` did."""

    kernel: Name
    root: str
    written: tuple[str, ...]
    kept: tuple[str, ...]
    """Were there already, and stay as they are."""
    warnings: tuple[str, ...] = ()
    """What a person should know: a name that hides another, an entry that was not added."""
    to_fill: tuple[str, ...]
    """What could not be inferred: file, line, text."""
    next: str


class _KernelSource(NamedTuple):
    """A kernel's source, and the kernel folder that it will get."""

    path: Path
    analysis: SourceSummary
    root: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.root / "kernels" / self.name

    def path_from_folder(self, path: Path) -> str:
        return Path(os.path.relpath(path.resolve(), self.folder.resolve())).as_posix()


def init_project(
    file: str | None = None,
    candidate: str | None = None,
    target: TargetChoice = "auto",
    name: str | None = None,
) -> InitResult:
    """Write a kernel folder, sessions, the ignore file, the overlay and the client's entry.

    Nothing that exists is written over.

    Args:
        file: The kernel's source, or a KernelBench task; looked for by default.
        candidate: For a task, the file with ``ModelNew``.
        target: Where it will run; ``auto`` goes by the source, for a task by the machine.
        name: The kernel's; the file's by default.

    Raises:
        BadValueError: There is no kernel, more than one to choose from, or one of that name that
            has another source.
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
    seen = _analyze_file(path)
    if seen is None:
        raise BadValueError(
            f"{path} holds no kernel that can be recognised: no __global__ function, no "
            f'extern "C" function, no triton.jit, no PYBIND11_MODULE, no Model with get_inputs'
        )
    if name and to_field_name(name) != name:
        raise BadValueError(
            f"--name {name!r} is no kernel's name; try --name {to_field_name(name)}"
        )
    return _KernelSource(path, seen, root, name or to_field_name(path.stem))


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
        raise BadValueError(f"no kernel below {root}; name its source: kb init FILE")
    if len(kernels) > 1:
        names = ", ".join(str(path.relative_to(root)) for path in kernels[:8])
        raise BadValueError(f"{len(kernels)} files hold kernels; name one: kb init FILE ({names})")
    return kernels[0]


def _iter_sources(root: Path) -> Iterator[Path]:
    count = 0
    for folder, inside, names in os.walk(root):
        if "kernel.yaml" in names:  # one of ours already
            inside.clear()
            continue
        inside[:] = sorted(name for name in inside if name not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            count += 1
            if name.endswith(_SOURCE_SUFFIXES) and count <= _MAX_FILES:
                yield Path(folder) / name


def _draft_files(source: _KernelSource, wanted: TargetChoice) -> tuple[dict[str, str], list[str]]:
    """Draft the files for a source of somebody's own; also say what was passed over."""
    path, seen, _, name = source
    if not seen.functions:
        raise BadValueError(f"{path} has a kernel, but nothing in it launches one")
    include = source.path_from_folder(path)
    target = _resolve_target(source, wanted)
    if seen.kind == "torch-extension":
        others = _find_definers(source)
        if wanted == "auto" and any(one.suffix == ".cu" for one in others):
            target = "cuda"
        beside = [source.path_from_folder(one) for one in others]
        return draft_extension_files(name, seen, include, beside, target), []
    first = choose_function(seen)
    passed = [f.name for f in seen.functions if f != first and f.is_kernel == first.is_kernel]
    said = f"{path.name} also holds {', '.join(passed)}; drafted is {first.name} alone"
    warnings = [said] if passed else []
    if seen.kind == "triton":
        return draft_python_files(name, seen, include), warnings
    return draft_c_files(name, seen, include, target), warnings


def _resolve_target(source: _KernelSource, wanted: TargetChoice) -> Target:
    """Return where a source runs: where the caller says, unless it cannot run there."""
    path, seen, _, _ = source
    if wanted == "auto":
        return seen.target
    if wanted == "cpu" and (path.suffix == ".cu" or seen.kind == "triton"):
        what = "Triton" if seen.kind == "triton" else "CUDA"
        raise BadValueError(f"{path} is {what} and runs on no CPU; leave --target cpu out")
    return wanted


def _find_definers(source: _KernelSource) -> list[Path]:
    """List the files that define what an extension does not, the nearest ones only."""
    path, seen, root, _ = source
    if not seen.missing_functions:
        return []
    around = [
        p
        for p in _iter_sources(root)
        if p.suffix in _COMPILED_SUFFIXES and p.resolve() != path.resolve()
    ]
    found = [p.resolve() for p in around if defines_any(_read_text(p), seen.missing_functions)]
    return [p for p in found if p.is_relative_to(path.resolve().parent)] or found


def _draft_task_pair(
    source: _KernelSource, candidate: str | None, wanted: TargetChoice
) -> tuple[dict[str, str], list[str]]:
    if candidate is None or source.analysis.kind == "candidate":
        raise BadValueError("a KernelBench pair is two files: kb init TASK.py --candidate MINE.py")
    target = validate_machine().target if wanted == "auto" else wanted
    made = make_task_files(source.path, Path(candidate), None, target)
    renamed = re.sub(r"\Aid: .*", f"id: {source.name}", made.files["kernel.yaml"])
    return {**made.files, "kernel.yaml": renamed}, list(made.warnings)


def _refuse_other_source(source: _KernelSource, files: dict[str, str]) -> None:
    """Refuse a folder that holds another source's kernel: it would be kept, and measured.

    Raises:
        BadValueError: There is such a folder.
    """
    made = [n for n in files if n != "reference.py" and (source.folder / n).is_file()]
    there = {n: _read_text(source.folder / n) for n in made}
    if not there:
        return
    if source.analysis.kind == "kernelbench":
        same = all(there.get(n) == files[n] for n in ("task.py", "candidate.py"))
    else:
        quoted = f'"{source.path_from_folder(source.path)}"'
        same = any(quoted in text for text in there.values())
    if not same:
        other = to_field_name(f"{source.path.resolve().parent.name}_{source.path.stem}")
        raise BadValueError(
            f"kernels/{source.name} is there already and was not made from {source.path} as it "
            f"is now; give this one a name of its own, such as --name {other}, or delete that "
            f"folder"
        )


def _list_shadow_warnings(source: _KernelSource) -> list[str]:
    ours = Path(shipped_folder("kernels")) / source.name
    if not (ours / "kernel.yaml").is_file() or ours.resolve() == source.folder.resolve():
        return []
    return [
        f"the kernel {source.name} that ships with KernelKB is hidden by yours in this project; "
        f"to keep both, delete kernels/{source.name} and give --name"
    ]


def _find_marks(folder: Path) -> Iterator[str]:
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        for number, line in enumerate(_read_text(path).splitlines(), 1):
            if FILL_IN_MARK in line and not line.lstrip().startswith(("#", "//")):
                yield f"{path.name}:{number}: {line.strip()}"
