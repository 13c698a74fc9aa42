"""The folder of a build: the digest that names it, whether it is whole, its machine code."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kernelkb.errors import EnvironmentGapError, ForbiddenPathError
from kernelkb.measure.build.compilers import LIBRARY_NAME, REPORT_NAME
from kernelkb.model.kernels.languages import COMPILED_SUFFIXES
from kernelkb.model.records.measurement import Build
from kernelkb.safety.storage import describe_write_cure
from kernelkb.safety.untrusted_text import parse_json
from kernelkb.safety.workspace import read_bytes, read_text, resolve_inside

LOG_NAME = "build.log"
SEAL_NAME = "sealed.json"
"""Size in bytes and SHA-256 of each file that a build is read from."""
_SEALED_NAMES = (LIBRARY_NAME, LOG_NAME, REPORT_NAME)
_STALE_S = 3600.0
"""Age of a folder that no running build can have: builds end after 5 minutes."""
_UNFINISHED_PREFIX = ".building-"

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n\0]+)[">]', re.MULTILINE)

_MAX_CUBINS = 4
"""Files that are read of a folder, the newest: disassembling each takes most of a second."""


def make_unfinished_folder(parent: Path) -> Path:
    """Return a new folder to build in; folders that killed builders left are removed.

    Raises:
        EnvironmentGapError: The project cannot be written, or its disk is full.
    """
    resolve_inside(parent, to_write=True)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _write_gitignore(parent.parent.parent)
        _remove_stale_folders(parent)
        return Path(tempfile.mkdtemp(prefix=_UNFINISHED_PREFIX, dir=parent))
    except OSError as error:
        gap = f"{error.filename or parent} cannot be written ({error.strerror})"
        cure = describe_write_cure(error, "run in a project that you may write to")
        raise EnvironmentGapError(gap, cure) from error


def is_whole(folder: Path) -> bool:
    """Return whether a finished build has the files that the compiler wrote.

    A power cut or a full disk can leave it cut or empty, and the kernel would be blamed.
    """
    try:
        sealed = parse_json((folder / SEAL_NAME).read_text(encoding="ascii"))
        return LIBRARY_NAME in sealed and bool(sealed == _digest_files(folder))
    except (OSError, ValueError, TypeError):
        return False


def finish(unfinished: Path, final: Path) -> bool:
    """Sync a build to the disk and move it into place; return whether a whole build is there.

    A damaged build is replaced. Of two builders at once one is first; the results are the same.
    """
    seal = _digest_files(unfinished)
    (unfinished / SEAL_NAME).write_text(json.dumps(seal), encoding="ascii")
    for name in (*seal, SEAL_NAME, "."):
        _sync(unfinished / name)
    if final.is_dir() and not is_whole(final):
        with suppress(OSError):  # another builder replaced it
            final.rename(unfinished.with_name(f"{unfinished.name}-damaged"))
    with suppress(OSError):  # another builder was first
        unfinished.rename(final)
        _sync(final.parent)
    return is_whole(final)


def _digest_files(folder: Path) -> dict[str, list[int | str]]:
    found: dict[str, list[int | str]] = {}
    for name in _SEALED_NAMES:
        with suppress(FileNotFoundError), (folder / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            found[name] = [size, hashlib.file_digest(file, "sha256").hexdigest()]
    return found


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_stale_folders(parent: Path) -> None:
    """Remove the folders of killed builders, which only take up space."""
    for folder in parent.glob(f"{_UNFINISHED_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE_S:
                shutil.rmtree(folder, ignore_errors=True)


def _write_gitignore(kb_folder: Path) -> None:
    """Keep .kb out of the user's version control."""
    marker = kb_folder / ".gitignore"
    if kb_folder.name == ".kb" and not marker.exists():
        marker.write_text("*\n", encoding="utf-8")


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
        for paths in iter_included(file, read_text(file, errors="replace"), folders):
            pending += [path.resolve() for path in paths if path.is_file()][:1]
    return list(files)


_MAX_SIBLINGS = 400


def find_definition(symbol: str, files: Sequence[Path]) -> str:
    """Return ``file:line`` of a function's definition beside the files of a build; else empty.

    Args:
        symbol: As ``Grid::resize(int)``, or without its parameters.
        files: Those that are compiled, and their headers.
    """
    name = r"\s*::\s*".join(re.escape(part) for part in symbol.partition("(")[0].split("::")[-2:])
    defined = re.compile(rf"(?<![\w.>]){name}\s*\([^;{{}}()]*\)[\w\s:,()]*\{{")
    folders = dict.fromkeys(file.parent for file in files)
    beside = [each for folder in folders for each in sorted(folder.iterdir())]
    sources = [each for each in beside if each.suffix in COMPILED_SUFFIXES and each not in files]
    for each in sources[:_MAX_SIBLINGS]:
        text = ""
        with suppress(ForbiddenPathError, OSError):
            text = read_text(each, errors="replace")
        if match := defined.search(text):
            return f"{each.name}:{text.count(chr(10), 0, match.start()) + 1}"
    return ""


def iter_included(file: Path, text: str, folders: Sequence[Path] = ()) -> Iterator[list[Path]]:
    """Yield, for each include of a source, where the file may be, in the compiler's order.

    Args:
        file: Of the source.
        text: What the source says.
        folders: As for ``find_source_files``.
    """
    for name in _INCLUDE.findall(text):
        yield [folder / name for folder in (file.parent, *folders)]


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


def find_machine_code(build: Build) -> list[Path]:
    """Return the files with a build's machine code; empty before Triton ran.

    Triton and inductor compile for each configuration and shape that is called, so that a folder
    may hold several cubins of one kernel; all of them come from the source as it is.
    """
    if build.library is not None:
        return [Path(build.library)]
    if build.target != "cuda":
        return []
    cubins = [
        path
        for path in Path(build.directory).rglob("*.cubin")
        if path.is_file() and not path.is_symlink()
    ]
    return sorted(cubins, key=lambda path: -path.stat().st_mtime_ns)[:_MAX_CUBINS]
