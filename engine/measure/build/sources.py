"""Which files a source is made of, and what they hold."""

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
    part of a build's name too. Asking the compiler (``-MM``) would take longer than a build that
    has nothing to do.

    Args:
        source: The file.
        folders: Where else to look for headers, such as the ``-I`` of its flags.
    """
    found: dict[Path, None] = {}
    waiting = [source]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        text = read_text(file, errors="replace")
        for name in _INCLUDE.findall(text):
            places = [folder / name for folder in (file.parent, *folders)]
            waiting += [place.resolve() for place in places if place.is_file()][:1]
    return list(found)


def compute_digest(files: Sequence[Path], command: Sequence[str]) -> str:
    """Digest what decides a result: files, flags, and the compiler's own identity.

    Args:
        files: Everything that is compiled; each counts by name and content.
        command: The compiler and its flags, without the names of the files.
    """
    running = hashlib.sha256()
    for path in files:
        body = read_bytes(path)
        running.update(f"{path.name}\0{len(body)}\0".encode() + body)
    compiler = Path(os.path.realpath(command[0])).stat()
    stamp = [*command[1:], compiler.st_size, compiler.st_mtime_ns, _resolve_native_arch(command)]
    running.update(json.dumps(stamp).encode())
    return running.hexdigest()[:16]


def _resolve_native_arch(command: Sequence[str]) -> str:
    """Return what -march=native means here: a project folder may be shared between machines."""
    if "-march=native" not in command:
        return ""
    argv = [command[0], "-march=native", "-###", "-E", "-x", "c++", "/dev/null"]
    asked = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    return next(
        (line for line in asked.stderr.splitlines() if "-march=" in line or "cpu" in line), ""
    )


def parse_include_folders(flags: Sequence[str], base: Path) -> list[Path]:
    """Return the folders of ``-I`` flags; a relative one is meant from ``base``."""
    return [base / flag[2:] for flag in flags if flag.startswith("-I") and len(flag) > 2]
