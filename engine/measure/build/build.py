"""Compile variants with ninja into directories named after everything that went into them."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.errors import BadValueError, EnvironmentGapError
from kernelkb.measure.build.commands import LIBRARY, REPORT, Commands, commands_of, module_name
from kernelkb.measure.build.compiler_output import first_error, loops_of, resources_of
from kernelkb.measure.build.sources import digest_of, files_of, include_folders
from kernelkb.measure.machine.tools import find_cxx, find_ninja
from kernelkb.measure.process.compiler_sandbox import fenced
from kernelkb.measure.process.subprocesses import run_child
from kernelkb.measure.process.worker_jobs import removed_afterwards
from kernelkb.measure.subject import Subject
from kernelkb.model.kernel import Variant
from kernelkb.model.measurement import Build, KernelResources, Loop
from kernelkb.safety.compiler_flags import refused
from kernelkb.safety.untrusted_text import one_line
from kernelkb.safety.workspace import inside, read_bytes

_TIMEOUT_S = 300.0
_STALE_S = 3600.0
_LOG = "build.log"
_ERROR_LENGTH = 400
_BUILDING = ".building-"


class Planned(NamedTuple):
    """One configuration of a variant, before it is compiled."""

    subject: Subject
    defines: tuple[str, ...]
    sources: list[Path]
    commands: Commands
    final: Path
    module: str | None

    @property
    def command(self) -> str:
        """What a person would type for the first source."""
        return shlex.join([*self._compiler(self.sources[0]), str(self.sources[0])])

    def _compiler(self, source: Path) -> list[str]:
        return self.commands.device if source.suffix == ".cu" else self.commands.host

    def rules(self, folder: Path) -> str:
        """Return the ninja file that makes the library in ``folder``.

        A single source goes through one command: a second one for the link costs 0.2 s.
        """
        here = _ninja_path(folder)
        if len(self.sources) == 1:
            compiler = self._compiler(self.sources[0])
            tool = "-shared" if compiler is self.commands.host else "--shared"
            last = [tool, *self.commands.link[1:], *self.commands.libraries]
            command = self._with_name([*compiler, "-MD", "-MF", "kernel.d"])
            enter = f"cd {_quoted([str(folder)])}"
            line = f"{enter} && {_quoted(command)} -o {LIBRARY} $in {_quoted(last)}"
            return (
                f"rule library\n  command = {line}\n"
                f"build {here}/{LIBRARY}: library {_ninja_path(self.sources[0])}\n"
            )
        text, objects = "", []
        for at, source in enumerate(self.sources):
            made = f"{here}/{at}.o"
            command = self._with_name([*self._compiler(source), "-MD", "-MF", f"{at}.d", "-c"])
            line = f"cd {_quoted([str(folder)])} && {_quoted(command)} -o {at}.o $in"
            text += f"rule compile{at}\n  command = {line}\n"
            text += f"build {made}: compile{at} {_ninja_path(source)}\n"
            objects.append(made)
        link = f"{_quoted(self.commands.link)} -o $out $in {_quoted(self.commands.libraries)}"
        text += f"rule link\n  command = {link}\n"
        return f"{text}build {here}/{LIBRARY}: link {' '.join(objects)}\n"

    def _with_name(self, command: list[str]) -> list[str]:
        return [*command, f"-DTORCH_EXTENSION_NAME={self.module}"] if self.module else command


def build(subject: Subject, root: Path, defines: Sequence[str] = ()) -> Build:
    """Compile one variant, or find that this exact build exists.

    Args:
        subject: What to compile, and where it will run.
        root: The project's build folder, ``.kb/build``.
        defines: Macros, as ``NAME=VALUE``.

    Raises:
        EnvironmentGapError: Something that the variant needs is not there.
    """
    return build_all(subject, root, [defines])[0]


def build_all(subject: Subject, root: Path, configurations: Sequence[Sequence[str]]) -> list[Build]:
    """Compile configurations of one variant side by side, as many as there are cores.

    A directory's name is a digest of the sources, the headers that they include, the flags, the
    compiler and the machine's architecture. It appears whole, by a rename: two builders at once
    both succeed, and a killed one leaves nothing that a later build waits for.

    Args:
        subject: What to compile, and where it will run.
        root: The project's build folder, ``.kb/build``.
        configurations: For each, its macros as ``NAME=VALUE``.

    Returns:
        A Build for each configuration; a failed one does not stop the others.

    Raises:
        EnvironmentGapError: Something that the variant needs is not there.
    """
    started = time.monotonic()
    if not subject.variant.compiled:
        return [_uncompiled(subject, root)]
    planned = [_plan(subject, root, tuple(defines)) for defines in configurations]
    missing = {p.final: p for p in planned if not (p.final / LIBRARY).is_file()}
    complaints = _compile(list(missing.values()), subject) if missing else {}
    seconds = time.monotonic() - started
    return [
        _result(one, one.final not in missing, complaints.get(one.final), seconds)
        for one in planned
    ]


def _uncompiled(subject: Subject, root: Path) -> Build:
    """Return the folder in which what Python makes of a variant is kept."""
    source, variant = subject.source, subject.variant
    digest = hashlib.sha256(read_bytes(source.folder / variant.source)).hexdigest()[:16]
    final = root / source.kernel.id / f"{variant.target}-{variant.id}-{digest}"
    same: dict[str, Any] = {**subject.names, "directory": str(final), "command": ""}
    return Build(**same, status="not-compiled", library=None, seconds=0.0)


def _plan(subject: Subject, root: Path, defines: tuple[str, ...]) -> Planned:
    source, variant, machine = subject
    for define in defines:
        if not define.isprintable():  # ninja would read on in the next line
            raise BadValueError(f"the macro {define!r} is not one line of printable text")
    wrong = refused([f"-D{define}" for define in defines], str(source.folder))
    if wrong is not None:
        raise BadValueError(wrong[1])
    host = machine.compiler if variant.target == "cpu" else find_cxx() or "c++"
    commands = commands_of(variant, machine, host, defines)
    sources = [(source.folder / name).resolve() for name in (variant.source, *variant.also)]
    folders = include_folders(variant.flags, source.folder)
    files = [file for one in sources for file in files_of(one, folders)]
    used = commands.device if variant.target == "cuda" else commands.host
    digest = digest_of(files, [*used, *commands.libraries])
    final = root / source.kernel.id / f"{variant.target}-{variant.id}-{digest}"
    return Planned(subject, defines, sources, commands, final, module_name(variant, digest))


def _result(one: Planned, cached: bool, complaint: str | None, seconds: float) -> Build:
    variant = one.subject.variant
    fields: dict[str, Any] = {"status": "cached" if cached else "built", "module": one.module}
    if complaint is not None:
        cure = f"fix {variant.source} and build again"
        fields = {
            "status": "failed",
            "error": one_line(first_error(complaint), _ERROR_LENGTH),
            "cure": cure,
        }
    elif variant.target == "cpu":
        fields["loops"] = _loops(one.final, one.sources[0])
    else:
        fields["resources"] = _resources(one.final, variant)
    return Build(
        **one.subject.names,
        **fields,
        defines=one.defines,
        seconds=seconds,
        library=None if complaint is not None else str(one.final / LIBRARY),
        directory=str(one.final),
        command=one.command,
    )


def _compile(missing: Sequence[Planned], subject: Subject) -> dict[Path, str]:
    """Compile each into a folder of its own and rename that; return what failed ones printed."""
    parent = missing[0].final.parent
    with removed_afterwards(_fresh_folder(parent)) as folder:
        insides = [folder / str(at) for at in range(len(missing))]
        text = ""
        for at, (inside, one) in enumerate(zip(insides, missing, strict=True)):
            inside.mkdir()
            (inside / "build.ninja").write_text(one.rules(inside), encoding="utf-8")
            text += f"subninja {at}/build.ninja\n"
        (folder / "build.ninja").write_text(text, encoding="utf-8")
        ninja = [find_ninja() or "ninja", "-v", "-k", "0", "-j", str(subject.machine.core_count)]
        argv = fenced(ninja, folder, {place for one in missing for place in one.commands.places})
        # Compilers write nowhere else either, so that a killed one leaves nothing behind.
        env = {"TMPDIR": str(folder)}
        end = run_child(argv, log=folder / _LOG, timeout_s=_TIMEOUT_S, env=env, cwd=folder)
        log = (folder / _LOG).read_text(encoding="utf-8", errors="replace")
        found: dict[Path, str] = {}
        for inside, one in zip(insides, missing, strict=True):
            said = log if len(missing) == 1 else _part(log, inside)
            if not (inside / LIBRARY).is_file():
                late = f"error: the compiler took longer than {_TIMEOUT_S:.0f} s"
                found[one.final] = late if end.timed_out else said
                continue
            (inside / _LOG).write_text(said, encoding="utf-8")
            with suppress(OSError):  # another builder was first; its result is the same
                inside.rename(one.final)
            if not (one.final / LIBRARY).is_file():
                found[one.final] = f"error: the build could not be moved to {one.final}"
        return found


def _part(log: str, inside: Path) -> str:
    """Return what ninja's log says of one folder: its commands, and what they printed."""
    kept: list[str] = []
    ours = False
    for line in log.splitlines():
        if line.startswith("[") and "] " in line:
            ours = f"{inside}/" in line or f"{inside} " in line
        elif line.startswith("FAILED: "):
            ours = f"{inside}/" in line
        if ours:
            kept.append(line)
    return "\n".join(kept) + "\n"


def _quoted(command: Sequence[str]) -> str:
    return shlex.join(command).replace("$", "$$")


def _ninja_path(path: Path) -> str:
    return str(path).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _fresh_folder(parent: Path) -> Path:
    inside(parent, to_write=True)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _ignore(parent.parent.parent)
        _sweep(parent)
        return Path(tempfile.mkdtemp(prefix=_BUILDING, dir=parent))
    except OSError as error:
        gap = f"{error.filename or parent} cannot be written ({error.strerror})"
        raise EnvironmentGapError(gap, "run in a project that you may write to") from error


def _sweep(parent: Path) -> None:
    """Remove what builders that were killed have left; nobody waits for it, but it takes space."""
    for folder in parent.glob(f"{_BUILDING}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE_S:
                shutil.rmtree(folder, ignore_errors=True)


def _ignore(kb_folder: Path) -> None:
    """Keep .kb out of the user's version control."""
    marker = kb_folder / ".gitignore"
    if kb_folder.name == ".kb" and not marker.exists():
        marker.write_text("*\n", encoding="utf-8")


def _loops(folder: Path, file: Path) -> tuple[Loop, ...]:
    report = folder / REPORT
    name = report if report.is_file() else folder / _LOG
    return loops_of(name.read_text(encoding="utf-8", errors="replace"), file)


def _resources(folder: Path, variant: Variant) -> tuple[KernelResources, ...]:
    log = (folder / _LOG).read_text(encoding="utf-8", errors="replace")
    return resources_of(log, variant.kernels)
