"""Compile a variant with ninja into a directory named after everything that went into it."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.errors import EnvironmentGapError
from engine.measure.compiler_output import first_error, loops_of, resources_of
from engine.measure.environment import find_ninja
from engine.measure.isolation import run_child
from engine.measure.subject import Subject
from engine.model.kernel import Variant
from engine.model.measurement import Build, KernelResources, Loop, Machine

_HEADERS = (".h", ".hpp", ".cuh", ".inc")
_TIMEOUT_S = 300.0
_LIBRARY = "kernel.so"
_REPORT = "vectorization.txt"
_LOG = "build.log"

_RULES = """\
rule compile
  command = {command}
  depfile = kernel.d
  deps = gcc
build {library}: compile {source}
"""


def build(subject: Subject, root: Path) -> Build:
    """Compile one variant, or find that this exact build exists.

    The directory's name is a digest of the source, the headers beside it, the flags, the compiler
    and the machine's architecture. It appears whole, by a rename: two builders at once both
    succeed, and a killed one leaves nothing that a later build waits for.

    Args:
        subject: What to compile, and where it will run.
        root: The project's build folder, ``.kb/build``.
    """
    started = time.monotonic()
    source, variant, machine = subject
    file = source.folder / variant.source
    command = _command(variant, machine, file)
    final = root / source.kernel.id / f"{variant.target}-{variant.id}-{_digest(file, command)}"
    cached = (final / _LIBRARY).is_file()
    complaint = None if cached else _compile(final, command, file)
    fields: dict[str, Any] = {"status": "cached" if cached else "built"}
    if complaint is not None:
        cure = f"fix {variant.source} and build again"
        fields = {"status": "failed", "error": first_error(complaint), "cure": cure}
    elif variant.target == "cpu":
        fields["loops"] = _loops(final, file)
    else:
        fields["resources"] = _resources(final, variant)
    return Build(
        **subject.names,
        **fields,
        seconds=time.monotonic() - started,
        library=None if complaint is not None else str(final / _LIBRARY),
        directory=str(final),
        command=shlex.join(command),
    )


def _command(variant: Variant, machine: Machine, file: Path) -> list[str]:
    common = ["-O3", "-std=c++17", *variant.flags, "-MD", "-MF", "kernel.d", "-o", _LIBRARY]
    if variant.target == "cuda":
        arch = _arch(machine.cc or "")
        one = f"arch=compute_{arch},code=sm_{arch}"  # the shorthand -arch compiles twice
        host = ["-Xcompiler", "-fPIC", "--shared", "-lineinfo", "-Xptxas", "-v"]
        return [machine.compiler, "-gencode", one, *host, *common, str(file)]
    flags = ["-march=native", "-fopenmp", "-fPIC", "-shared", "-g1"]
    return [machine.compiler, *flags, *_report_flags(machine), *common, str(file)]


def _arch(cc: str) -> str:
    """Return the real architecture, with the suffix that its own instructions need."""
    number = cc.replace(".", "")
    return f"{number}a" if number in ("90", "100", "103", "120", "121") else number


def _report_flags(machine: Machine) -> list[str]:
    if "clang" in machine.compiler_version:
        return ["-Rpass=loop-vectorize", "-Rpass-missed=loop-vectorize"]
    return [f"-fopt-info-vec-optimized-missed={_REPORT}"]


def _digest(file: Path, command: list[str]) -> str:
    """Digest what decides the result: bytes, headers, flags, and the compiler's own identity."""
    running = hashlib.sha256()
    headers = sorted(p for p in file.parent.iterdir() if p.suffix in _HEADERS)
    for path in (file, *headers):
        body = path.read_bytes()
        running.update(f"{path.name}\0{len(body)}\0".encode() + body)
    compiler = Path(os.path.realpath(command[0])).stat()
    native = _native_flags(command)
    stamp = [*command[1:-1], file.name, compiler.st_size, compiler.st_mtime_ns, native]
    running.update(json.dumps(stamp).encode())
    return running.hexdigest()[:16]


def _native_flags(command: list[str]) -> str:
    """Return what -march=native means here: a project folder may be shared between machines."""
    if "-march=native" not in command:
        return ""
    argv = [command[0], "-march=native", "-###", "-E", "-x", "c++", "/dev/null"]
    asked = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    return next(
        (line for line in asked.stderr.splitlines() if "-march=" in line or "cpu" in line), ""
    )


def _compile(final: Path, command: list[str], file: Path) -> str | None:
    """Compile into a folder of its own and rename that; return what was printed on failure."""
    folder = _fresh_folder(final.parent)
    try:
        rules = _RULES.format(
            command=shlex.join(command).replace("$", "$$"),
            library=_LIBRARY,
            source=str(file).replace("$", "$$").replace(" ", "$ ").replace(":", "$:"),
        )
        (folder / "build.ninja").write_text(rules, encoding="utf-8")
        ninja = find_ninja() or "ninja"
        end = run_child([ninja, "-v"], log=folder / _LOG, timeout_s=_TIMEOUT_S, cwd=folder)
        if end.timed_out:
            return f"error: the compiler took longer than {_TIMEOUT_S:.0f} s"
        if end.returncode or not (folder / _LIBRARY).is_file():
            return end.output
        with suppress(OSError):  # another builder was first; its result is the same
            folder.rename(final)
        moved = (final / _LIBRARY).is_file()
        return None if moved else f"error: the build could not be moved to {final}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fresh_folder(parent: Path) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _ignore(parent.parent.parent)
        return Path(tempfile.mkdtemp(prefix=".building-", dir=parent))
    except OSError as error:
        gap = f"{error.filename or parent} cannot be written ({error.strerror})"
        raise EnvironmentGapError(gap, "run in a project that you may write to") from error


def _ignore(kb_folder: Path) -> None:
    """Keep .kb out of the user's version control."""
    marker = kb_folder / ".gitignore"
    if kb_folder.name == ".kb" and not marker.exists():
        marker.write_text("*\n", encoding="utf-8")


def _loops(folder: Path, file: Path) -> tuple[Loop, ...]:
    report = folder / _REPORT
    name = report if report.is_file() else folder / _LOG
    return loops_of(name.read_text(encoding="utf-8", errors="replace"), file)


def _resources(folder: Path, variant: Variant) -> tuple[KernelResources, ...]:
    log = (folder / _LOG).read_text(encoding="utf-8", errors="replace")
    return resources_of(log, variant.kernels)
