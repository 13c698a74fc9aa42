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
from kernelkb.measure.build.commands import (
    LIBRARY_NAME,
    REPORT_NAME,
    CompilerCommands,
    make_compiler_commands,
    module_name,
)
from kernelkb.measure.build.compiler_output import find_first_error, parse_loops, parse_resources
from kernelkb.measure.build.sources import compute_digest, find_source_files, parse_include_folders
from kernelkb.measure.machine.tools import find_cxx, find_ninja
from kernelkb.measure.process.compiler_sandbox import sandbox_command
from kernelkb.measure.process.subprocesses import run_supervised
from kernelkb.measure.process.worker_jobs import remove_afterwards
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.kernel import Variant
from kernelkb.model.measurement import Build, KernelResources, Loop
from kernelkb.safety.compiler_flags import find_disallowed_flag
from kernelkb.safety.untrusted_text import to_one_line
from kernelkb.safety.workspace import read_bytes, resolve_inside

_TIMEOUT_S = 300.0
_STALE_S = 3600.0
_LOG_NAME = "build.log"
_MAX_ERROR_LENGTH = 400
_UNFINISHED_PREFIX = ".building-"


class BuildPlan(NamedTuple):
    """One configuration of a variant, before it is compiled."""

    subject: MeasurementSubject
    defines: tuple[str, ...]
    sources: list[Path]
    commands: CompilerCommands
    output_folder: Path
    module: str | None

    @property
    def command(self) -> str:
        """What a person would type for the first source."""
        return shlex.join([*self._select_compiler(self.sources[0]), str(self.sources[0])])

    def _select_compiler(self, source: Path) -> list[str]:
        return self.commands.device if source.suffix == ".cu" else self.commands.host

    def format_ninja_rules(self, folder: Path) -> str:
        """Return the ninja file that makes the library in ``folder``.

        A single source goes through one command: a second one for the link costs 0.2 s.
        """
        here = _escape_ninja_path(folder)
        enter = f"cd {_quote_for_ninja([str(folder)])}"
        if len(self.sources) == 1:
            compiler = self._select_compiler(self.sources[0])
            tool = "-shared" if compiler is self.commands.host else "--shared"
            last = [tool, *self.commands.link[1:], *self.commands.libraries]
            command = self._add_module_name([*compiler, "-MD", "-MF", "kernel.d"])
            make = f"{_quote_for_ninja(command)} -o {LIBRARY_NAME} $in {_quote_for_ninja(last)}"
            line = f"{enter} && {make}"
            return (
                f"rule library\n  command = {line}\n"
                f"build {here}/{LIBRARY_NAME}: library {_escape_ninja_path(self.sources[0])}\n"
            )
        text, objects = "", []
        for at, source in enumerate(self.sources):
            made = f"{here}/{at}.o"
            command = self._add_module_name(
                [*self._select_compiler(source), "-MD", "-MF", f"{at}.d", "-c"]
            )
            line = f"{enter} && {_quote_for_ninja(command)} -o {at}.o $in"
            text += f"rule compile{at}\n  command = {line}\n"
            text += f"build {made}: compile{at} {_escape_ninja_path(source)}\n"
            objects.append(made)
        libraries = _quote_for_ninja(self.commands.libraries)
        link = f"{_quote_for_ninja(self.commands.link)} -o $out $in {libraries}"
        text += f"rule link\n  command = {link}\n"
        return f"{text}build {here}/{LIBRARY_NAME}: link {' '.join(objects)}\n"

    def _add_module_name(self, command: list[str]) -> list[str]:
        return [*command, f"-DTORCH_EXTENSION_NAME={self.module}"] if self.module else command


def build(subject: MeasurementSubject, root: Path, defines: Sequence[str] = ()) -> Build:
    """Compile one variant, or find that this exact build exists.

    Args:
        subject: What to compile, and where it will run.
        root: The project's build folder, ``.kb/build``.
        defines: Macros, as ``NAME=VALUE``.

    Raises:
        EnvironmentGapError: Something that the variant needs is not there.
    """
    return build_all(subject, root, [defines])[0]


def build_all(
    subject: MeasurementSubject, root: Path, configurations: Sequence[Sequence[str]]
) -> list[Build]:
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
    if not subject.variant.is_compiled:
        return [_make_uncompiled_build(subject, root)]
    planned = [_plan_build(subject, root, tuple(defines)) for defines in configurations]
    missing = {
        p.output_folder: p for p in planned if not (p.output_folder / LIBRARY_NAME).is_file()
    }
    complaints = _compile_missing(list(missing.values()), subject) if missing else {}
    seconds = time.monotonic() - started
    return [
        _make_build_result(
            one, one.output_folder not in missing, complaints.get(one.output_folder), seconds
        )
        for one in planned
    ]


def _make_uncompiled_build(subject: MeasurementSubject, root: Path) -> Build:
    """Return the folder in which what Python makes of a variant is kept."""
    source, variant = subject.kernel_folder, subject.variant
    digest = hashlib.sha256(read_bytes(source.folder / variant.source)).hexdigest()[:16]
    final = root / source.kernel.id / f"{variant.target}-{variant.id}-{digest}"
    same: dict[str, Any] = {**subject.identity_fields, "directory": str(final), "command": ""}
    return Build(**same, status="not-compiled", library=None, seconds=0.0)


def _plan_build(subject: MeasurementSubject, root: Path, defines: tuple[str, ...]) -> BuildPlan:
    source, variant, machine = subject
    for define in defines:
        if not define.isprintable():  # ninja would read on in the next line
            raise BadValueError(f"the macro {define!r} is not one line of printable text")
    wrong = find_disallowed_flag([f"-D{define}" for define in defines], str(source.folder))
    if wrong is not None:
        raise BadValueError(wrong[1])
    host = machine.compiler if variant.target == "cpu" else find_cxx() or "c++"
    commands = make_compiler_commands(variant, machine, host, defines)
    sources = [(source.folder / name).resolve() for name in (variant.source, *variant.also)]
    folders = parse_include_folders(variant.flags, source.folder)
    files = [file for one in sources for file in find_source_files(one, folders)]
    used = commands.device if variant.target == "cuda" else commands.host
    digest = compute_digest(files, [*used, *commands.libraries])
    final = root / source.kernel.id / f"{variant.target}-{variant.id}-{digest}"
    return BuildPlan(subject, defines, sources, commands, final, module_name(variant, digest))


def _make_build_result(
    plan: BuildPlan, cached: bool, error_output: str | None, seconds: float
) -> Build:
    variant = plan.subject.variant
    fields: dict[str, Any] = {"status": "cached" if cached else "built", "module": plan.module}
    if error_output is not None:
        cure = f"fix {variant.source} and build again"
        fields = {
            "status": "failed",
            "error": to_one_line(find_first_error(error_output), _MAX_ERROR_LENGTH),
            "cure": cure,
        }
    elif variant.target == "cpu":
        fields["loops"] = _read_loops(plan.output_folder, plan.sources[0])
    else:
        fields["resources"] = _read_resources(plan.output_folder, variant)
    return Build(
        **plan.subject.identity_fields,
        **fields,
        defines=plan.defines,
        seconds=seconds,
        library=None if error_output is not None else str(plan.output_folder / LIBRARY_NAME),
        directory=str(plan.output_folder),
        command=plan.command,
    )


def _compile_missing(missing: Sequence[BuildPlan], subject: MeasurementSubject) -> dict[Path, str]:
    """Compile each into a folder of its own and rename that; return what failed ones printed."""
    parent = missing[0].output_folder.parent
    with remove_afterwards(_make_unfinished_folder(parent)) as folder:
        insides = [folder / str(at) for at in range(len(missing))]
        text = ""
        for at, (inside, one) in enumerate(zip(insides, missing, strict=True)):
            inside.mkdir()
            (inside / "build.ninja").write_text(one.format_ninja_rules(inside), encoding="utf-8")
            text += f"subninja {at}/build.ninja\n"
        (folder / "build.ninja").write_text(text, encoding="utf-8")
        ninja = [find_ninja() or "ninja", "-v", "-k", "0", "-j", str(subject.machine.core_count)]
        argv = sandbox_command(
            ninja, folder, {place for one in missing for place in one.commands.read_folders}
        )
        # Compilers write nowhere else either, so that a killed one leaves nothing behind.
        env = {"TMPDIR": str(folder)}
        end = run_supervised(
            argv, log=folder / _LOG_NAME, timeout_s=_TIMEOUT_S, env=env, cwd=folder
        )
        log = (folder / _LOG_NAME).read_text(encoding="utf-8", errors="replace")
        found: dict[Path, str] = {}
        for inside, one in zip(insides, missing, strict=True):
            said = log if len(missing) == 1 else _extract_folder_log(log, inside)
            if not (inside / LIBRARY_NAME).is_file():
                late = f"error: the compiler took longer than {_TIMEOUT_S:.0f} s"
                found[one.output_folder] = late if end.timed_out else said
                continue
            (inside / _LOG_NAME).write_text(said, encoding="utf-8")
            with suppress(OSError):  # another builder was first; its result is the same
                inside.rename(one.output_folder)
            if not (one.output_folder / LIBRARY_NAME).is_file():
                found[one.output_folder] = (
                    f"error: the build could not be moved to {one.output_folder}"
                )
        return found


def _extract_folder_log(log: str, inside: Path) -> str:
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


def _quote_for_ninja(command: Sequence[str]) -> str:
    return shlex.join(command).replace("$", "$$")


def _escape_ninja_path(path: Path) -> str:
    return str(path).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _make_unfinished_folder(parent: Path) -> Path:
    resolve_inside(parent, to_write=True)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _write_gitignore(parent.parent.parent)
        _remove_stale_folders(parent)
        return Path(tempfile.mkdtemp(prefix=_UNFINISHED_PREFIX, dir=parent))
    except OSError as error:
        gap = f"{error.filename or parent} cannot be written ({error.strerror})"
        raise EnvironmentGapError(gap, "run in a project that you may write to") from error


def _remove_stale_folders(parent: Path) -> None:
    """Remove what builders that were killed have left; nobody waits for it, but it takes space."""
    for folder in parent.glob(f"{_UNFINISHED_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE_S:
                shutil.rmtree(folder, ignore_errors=True)


def _write_gitignore(kb_folder: Path) -> None:
    """Keep .kb out of the user's version control."""
    marker = kb_folder / ".gitignore"
    if kb_folder.name == ".kb" and not marker.exists():
        marker.write_text("*\n", encoding="utf-8")


def _read_loops(folder: Path, file: Path) -> tuple[Loop, ...]:
    report = folder / REPORT_NAME
    name = report if report.is_file() else folder / _LOG_NAME
    return parse_loops(name.read_text(encoding="utf-8", errors="replace"), file)


def _read_resources(folder: Path, variant: Variant) -> tuple[KernelResources, ...]:
    log = (folder / _LOG_NAME).read_text(encoding="utf-8", errors="replace")
    return parse_resources(log, variant.kernels)
