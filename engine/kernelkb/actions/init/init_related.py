"""Finds the files beside a source that tell how its kernel is called: headers, launches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from kernelkb.actions.init.init_source import COMPILED_SUFFIXES, iter_sources, read_source_text
from kernelkb.safety.paths import project_root
from kernelkb.scaffold.c.c_source import defines_any

_MAX_HEADERS, _MAX_BYTES = 40, 200_000
"""Headers that are read for a draft, and the size of each."""
_MAX_CALLERS = 400
"""Files that are searched for a launch or a function that is not in the kernel's own file."""


def read_headers(paths: Iterable[Path]) -> tuple[str, ...]:
    """Return what a source's headers hold, without those that are too large to be its own."""
    small = [path for path in paths if path.stat().st_size <= _MAX_BYTES]
    return tuple(read_source_text(path) for path in small[:_MAX_HEADERS])


def read_callers(source: Path, kernel: str, text: str) -> tuple[str, ...]:
    """Return what the files hold that include a source and launch its kernel, nearest first.

    Args:
        source: The file with the kernel.
        kernel: The kernel's name.
        text: What the file holds; none is searched for where it launches the kernel itself.
    """
    launch = re.compile(rf"\b{re.escape(kernel)}\s*(?:<[^;{{}}()]*>\s*)?<<<")
    include = re.compile(rf"#\s*include[^\n]*\b{re.escape(source.name)}[\">]")
    if launch.search(text):
        return ()
    found = []
    for path in _iter_near(source.resolve()):
        other = read_source_text(path) if path.stat().st_size <= _MAX_BYTES else ""
        if launch.search(other) and include.search(other):
            found.append(other)
    return tuple(found[:1])


def find_near_definers(source: Path, names: Iterable[str]) -> list[Path]:
    """Return, for each of some functions, the nearest file that defines it; each file once.

    Args:
        source: The file that uses them.
        names: Of functions; those that no file defines are left out.
    """
    wanted, found = list(names), dict[Path, None]()
    if not wanted:
        return []
    texts = {
        path: read_source_text(path)
        for path in _iter_near(source.resolve())
        if path.suffix in (".cu", ".cpp", ".cc") and path.stat().st_size <= _MAX_BYTES
    }
    for name in wanted:
        definers = (path for path, text in texts.items() if defines_any(text, (name,)))
        if (nearest := next(definers, None)) is not None:
            found.setdefault(nearest)
    return [*found]


def _iter_near(source: Path) -> list[Path]:
    """List the project's other compiled files, those with the most folders in common first."""
    files = [path.resolve() for path in iter_sources(Path(project_root()).resolve())]
    others = [path for path in files if path.suffix in COMPILED_SUFFIXES and path != source]

    def rank(path: Path) -> tuple[int, int]:
        return -len(Path(os.path.commonpath((path, source))).parts), len(path.parts)

    return sorted(others, key=rank)[:_MAX_CALLERS]
