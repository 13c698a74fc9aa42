"""What a Python file imports, itself or through modules of its project, and is nowhere."""

from __future__ import annotations

import ast
import glob
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from kernelkb.scaffold.python.launcher import count_levels

_MAX_MODULES = 200
"""Of the project that are read."""


class _Import(NamedTuple):
    """One import of a module."""

    module: str
    """As it is written, without the dots before it."""
    line: int
    folders: tuple[Path, ...]
    """Where it may be."""
    is_own: bool
    """It is relative: of the same package."""
    names: tuple[str, ...] = ()
    """What is imported from it; each may be a module, too."""


def list_missing_imports(path: Path, root: Path, text: str) -> list[str]:
    """Return a sentence for each module that a Python file imports and that is nowhere.

    Also for those that modules of the project import which it imports. Those that a file tries, as
    they may be absent, and those of a function are left out; so is what the packages that the file
    itself is in import, which launch.py does without.

    Args:
        path: The file.
        root: The project, in which the folders above the file are looked through.
        text: What the file holds.
    """
    path, root = path.resolve(), root.resolve()
    top = path.parent
    while (top / "__init__.py").exists():
        top = top.parent
    folders = (top, *top.parents[:4], root)
    missing: dict[str, str] = {}
    pending, seen = [(path, text)], {path, *(up / "__init__.py" for up in path.parents)}
    while pending and len(seen) < _MAX_MODULES:
        file, content = pending.pop()
        for each in _iter_imports(file, content, folders):
            if each.module and not _has_module(each):
                missing.setdefault(each.module, _describe(each, file, path, root))
            for module in _list_files(each):
                if module not in seen and module.is_relative_to(root):
                    seen.add(module)
                    pending.append((module, module.read_text(encoding="utf-8", errors="replace")))
    return [*_list_above(path, root, text), *missing.values()]


def _describe(each: _Import, file: Path, path: Path, root: Path) -> str:
    named = path.name if file == path else file.relative_to(root).as_posix()
    loaded = "the file" if file == path else path.name
    return (
        f"{named}:{each.line} imports {each.module}, which is neither in the project nor "
        f"installed: without it {loaded} does not load"
    )


def _list_above(path: Path, root: Path, text: str) -> list[str]:
    """Return a sentence for a file that imports from folders outside of the project."""
    levels = count_levels(text)
    above = [path.parents[at] for at in range(min(levels, 8))]
    if not above or above[-1].is_relative_to(root):
        return []
    return [
        f"{path.name} imports from {levels} folders above it, which is outside of {root}: name "
        "it below the folder that its package begins in, or it does not load"
    ]


def _iter_imports(file: Path, text: str, folders: tuple[Path, ...]) -> Iterator[_Import]:
    """Yield what a file imports at once; nothing of one that does not parse."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in body:
        if isinstance(node, ast.ImportFrom):
            is_own = node.level > 0
            places = (file.parents[min(node.level, len(file.parents)) - 1],) if is_own else folders
            names = tuple(alias.name for alias in node.names)
            yield _Import(node.module or "", node.lineno, places, is_own, names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield _Import(alias.name, node.lineno, folders, is_own=False)


def _list_files(each: _Import) -> list[Path]:
    """List the files that an import loads: of the module, its packages, and names that are some."""
    parts = each.module.split(".") if each.module else []
    stems = [parts[:count] for count in range(not each.is_own, len(parts) + 1)]
    stems += [[*parts, name] for name in each.names]
    for folder in each.folders:
        places = [folder.joinpath(*stem) for stem in stems]
        files = [f for p in places for f in (p.with_name(f"{p.name}.py"), p / "__init__.py")]
        if found := [file for file in files if file.is_file()]:
            return found
    return []


def _has_module(each: _Import) -> bool:
    """Whether a module is a file or folder below some folders, or its package is installed."""
    parts = each.module.split(".")
    if _is_below(parts, each.folders) or each.is_own:
        return _is_below(parts, each.folders)
    try:
        is_known = parts[0] in sys.stdlib_module_names or parts[0] in _ALWAYS_THERE
        return is_known or find_spec(parts[0]) is not None
    except (ImportError, ValueError):
        return False


def _is_below(parts: Sequence[str], folders: Sequence[Path]) -> bool:
    places = [folder.joinpath(*parts) for folder in folders]
    return any(p.is_dir() or any(p.parent.glob(f"{glob.escape(p.name)}.*")) for p in places)


_ALWAYS_THERE = ("torch", "triton")
"""What a machine that runs such a kernel has, though this one may not."""
