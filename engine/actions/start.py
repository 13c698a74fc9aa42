"""Begin in a project that is somebody else's: find the kernel, write what KernelKB needs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from engine.actions.tasks import task_files
from engine.errors import BadValueError
from engine.loading.drafts import MARK, cuda_files, extension_files, python_files
from engine.loading.imported import snake
from engine.loading.paths import MARKS, project_root
from engine.loading.signatures import Seen, look
from engine.model.base import Target
from engine.model.project import Begun

_SOURCES = (".cu", ".cpp", ".cc", ".py")
_PASSED = (
    ".git",
    ".venv",
    "venv",
    "node_modules",
    "build",
    "dist",
    ".kb",
    "__pycache__",
)
_MOST_FILES = 5000
_PROJECT = {
    "sessions/README.md": "Retrospectives, one file each. kb session lists them.\n",
    ".kb/.gitignore": "*\n",
    "knowledge/README.md": "Own patterns and thresholds; they overlay those that ship.\n",
}
_SERVER = {"command": "kb-mcp", "args": []}


def begin(file: str | None = None, candidate: str | None = None, target: Target = "cuda") -> Begun:
    """Write a kernel folder, sessions, the ignore file, the overlay and the client's entry.

    Nothing that exists is written over.

    Args:
        file: The kernel's source, or a KernelBench task; looked for by default.
        candidate: For a task, the file with ``ModelNew``.
        target: For a task, where it will run.

    Raises:
        BadValueError: There is no kernel, or more than one to choose from.
    """
    root = _root()
    path = Path(file) if file else _found(root)
    seen = _seen(path)
    if seen is None:
        raise BadValueError(
            f"{path} holds no kernel that can be recognised: no __global__ function, no "
            f"triton.jit, no PYBIND11_MODULE, no Model with get_inputs"
        )
    name = snake(path.stem)
    if seen.kind in ("kernelbench", "candidate"):
        files = _pair(path, seen, candidate, target)
    else:
        files = _drafted(name, path, seen, root)
    written, kept = _written(root, {f"kernels/{name}/{n}": text for n, text in files.items()})
    marks = list(_marks(root / "kernels" / name))
    return Begun(
        kernel=name,
        root=str(root),
        written=tuple(written),
        kept=tuple(kept),
        to_fill=tuple(marks),
        next=f"kb bench {name}" if not marks else f"fill in the marks, then kb bench {name}",
    )


def _root() -> Path:
    """Return the project: one that has begun, else the repository, else the working directory."""
    here = Path(project_root())
    if any((here / mark).is_dir() for mark in MARKS):
        return here
    return next((f for f in (here, *here.parents) if (f / ".git").exists()), here)


def _written(root: Path, files: dict[str, str]) -> tuple[list[str], list[str]]:
    """Write a kernel's files and what every project has; return what was new, and what was not."""
    written: list[str] = []
    kept: list[str] = []
    for relative, text in {**files, **_PROJECT}.items():
        _write(root / relative, text, root, written, kept)
    _client(root, written, kept)
    return written, kept


def _seen(path: Path) -> Seen | None:
    try:
        return look(path.name, path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise BadValueError(f"cannot read {path}: {error.strerror}") from error


def _found(root: Path) -> Path:
    kernels = [path for path in _sources(root) if _seen(path) is not None]
    if not kernels:
        raise BadValueError(f"no kernel below {root}; name its source: kb init FILE")
    if len(kernels) > 1:
        names = ", ".join(str(path.relative_to(root)) for path in kernels[:8])
        raise BadValueError(f"{len(kernels)} files hold kernels; name one: kb init FILE ({names})")
    return kernels[0]


def _sources(root: Path) -> Iterator[Path]:
    count = 0
    for folder, inside, names in os.walk(root):
        if "kernel.yaml" in names:  # one of ours already
            inside.clear()
            continue
        inside[:] = sorted(name for name in inside if name not in _PASSED)
        for name in sorted(names):
            count += 1
            if name.endswith(_SOURCES) and count <= _MOST_FILES:
                yield Path(folder) / name


def _drafted(name: str, path: Path, seen: Seen, root: Path) -> dict[str, str]:
    if not seen.functions:
        raise BadValueError(f"{path} has a kernel, but nothing in it launches one")
    include = os.path.relpath(path.resolve(), root / "kernels" / name)
    if seen.kind == "triton":
        return python_files(name, seen.functions[0], include)
    if seen.kind == "torch-extension":
        return extension_files(name, seen.functions[0], include)
    return cuda_files(name, seen, include)


def _pair(path: Path, seen: Seen, candidate: str | None, target: Target) -> dict[str, str]:
    if candidate is None or seen.kind == "candidate":
        raise BadValueError("a KernelBench pair is two files: kb init TASK.py --candidate MINE.py")
    return task_files(path, Path(candidate), None, target).files


def _write(path: Path, text: str, root: Path, written: list[str], kept: list[str]) -> None:
    relative = str(path.relative_to(root))
    if path.exists():
        kept.append(relative)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    written.append(relative)


def _client(root: Path, written: list[str], kept: list[str]) -> None:
    """Add our server to the project's MCP clients, beside those that are there."""
    path = root / ".mcp.json"
    if not path.exists():
        text = json.dumps({"mcpServers": {"kernelkb": _SERVER}}, indent=2) + "\n"
        _write(path, text, root, written, kept)
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or "kernelkb" in found.get("mcpServers", {}):
        kept.append(".mcp.json")
        return
    servers = {**found.get("mcpServers", {}), "kernelkb": _SERVER}
    path.write_text(json.dumps({**found, "mcpServers": servers}, indent=2) + "\n", "utf-8")
    written.append(".mcp.json")


def _marks(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if MARK in line and not line.lstrip().startswith(("#", "//")):
                yield f"{path.name}:{number}: {line.strip()}"
