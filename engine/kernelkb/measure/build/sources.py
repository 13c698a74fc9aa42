"""Files that a source includes, and the digest that identifies a build."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kernelkb.safety.workspace import read_bytes, read_text

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


def find_source_files(source: Path, folders: Sequence[Path] = ()) -> list[Path]:
    """Return a source and every header of the project that it includes, directly or not.

    Headers of the toolkit and of libraries are left out: they change with the compiler, which is
    part of a build's digest too. Asking the compiler (``-MM``) would take longer than a cached
    build.

    Args:
        source: The file.
        folders: Further folders of headers, such as the ``-I`` of its flags.
    """
    files: dict[Path, None] = {}
    pending = [source]
    while pending:
        file = pending.pop()
        if file in files:
            continue
        files[file] = None
        text = read_text(file, errors="replace")
        for name in _INCLUDE.findall(text):
            paths = [folder / name for folder in (file.parent, *folders)]
            pending += [path.resolve() for path in paths if path.is_file()][:1]
    return list(files)


def compute_digest(files: Sequence[Path], command: Sequence[str]) -> str:
    """Return a digest of what determines a build: files, flags and compiler; 16 hex digits.

    Args:
        files: Everything that is compiled, by name and content.
        command: The compiler and its flags, without the names of the files.
    """
    digest = hashlib.sha256()
    for path in files:
        content = read_bytes(path)
        digest.update(f"{path.name}\0{len(content)}\0".encode() + content)
    compiler = Path(os.path.realpath(command[0])).stat()
    stamp = [*command[1:], compiler.st_size, compiler.st_mtime_ns, _resolve_native_arch(command)]
    digest.update(json.dumps(stamp).encode())
    return digest.hexdigest()[:16]


def _resolve_native_arch(command: Sequence[str]) -> str:
    """Return what -march=native means here, since machines may share a project folder."""
    if "-march=native" not in command:
        return ""
    argv = [command[0], "-march=native", "-###", "-E", "-x", "c++", "/dev/null"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    return next(
        (line for line in done.stderr.splitlines() if "-march=" in line or "cpu" in line), ""
    )


def parse_include_folders(flags: Sequence[str], base: Path) -> list[Path]:
    """Return the folders of ``-I`` flags; relative ones start at ``base``."""
    return [base / flag[2:] for flag in flags if flag.startswith("-I") and len(flag) > 2]


def locate_includes(flags: Sequence[str], base: Path) -> tuple[str, ...]:
    """Return flags with every ``-I`` as an absolute path: compilers run in the build's folder."""
    return tuple(
        f"-I{os.path.normpath(base / flag[2:])}" if flag.startswith("-I") and flag[2:] else flag
        for flag in flags
    )
