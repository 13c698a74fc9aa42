"""Compiles variants with ninja; a build's folder is named by a digest of all of its inputs."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.errors import BadValueError
from kernelkb.measure.build.compilers import (
    LIBRARY_NAME,
    REPORT_NAME,
    CompilerCommands,
    find_first_error,
    list_undefined_symbols,
    make_compiler_commands,
    module_name,
    parse_loops,
    parse_resources,
    require_cuda_torch,
)
from kernelkb.measure.build.folders import (
    LOG_NAME,
    compute_digest,
    find_definition,
    find_source_files,
    finish,
    is_whole,
    locate_includes,
    make_unfinished_folder,
    parse_include_folders,
)
from kernelkb.measure.machine.host import find_cxx, find_ninja
from kernelkb.measure.process.compiler_sandbox import sandbox_command
from kernelkb.measure.process.subprocesses import remove_afterwards, run_supervised
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.kernels.kernel import Variant
from kernelkb.model.records.measurement import Build, KernelResources, Loop
from kernelkb.safety.compiler_flags import find_disallowed_flag
from kernelkb.safety.files import keep_file
from kernelkb.safety.storage import require_space
from kernelkb.safety.untrusted_text import to_one_line
from kernelkb.safety.workspace import read_bytes

MAX_FILE_BYTES = 2**30
"""Largest file that a compiler may write: objects of large template libraries take a tenth."""
_MIN_ADDRESS_BYTES = 32 * 2**30
"""Address space that every compiler gets; nvcc's largest passes take about a third."""
_ADDRESS_BYTES_PER_CORE = 2**28
"""For the threads of ``nvcc --split-compile``: a stack, and an arena of malloc."""
_EXCEEDED = re.compile(r"file size limit exceeded|file too large", re.IGNORECASE)
_NO_MEMORY = re.compile(
    r"out of memory|cannot allocate memory|virtual memory exhausted|bad_alloc|memory exhausted",
    re.IGNORECASE,
)
_FROM_A_TOOL = re.compile(
    r"(?:[\w./+-]+|\{standard input\}): |nvcc (?:error|fatal)|LLVM ERROR|virtual memory"
    r"|terminate called",
    re.IGNORECASE,
)
"""Begins a line of a compiler about itself; lines about a source have a number after its name."""

_TIMEOUT_S = 300.0
"""Of all configurations of one call together."""
_MAX_ERROR_LENGTH = 400


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
        """The compiler's command line for the first source, as typed into a shell."""
        return shlex.join([*self._select_compiler(self.sources[0]), str(self.sources[0])])

    def _select_compiler(self, source: Path) -> list[str]:
        device, host = self.commands.device, self.commands.host
        if source.suffix == ".c":  # nvcc takes it as C; a compiler of C++ has to be told
            return device or [host[0], "-x", "c", *host[1:]]
        return device if source.suffix == ".cu" else host

    def format_ninja_rules(self, folder: Path) -> str:
        """Return a ninja file that builds the library in ``folder``.

        One source is compiled and linked by one command: a separate link costs 0.2 s.
        """
        target = _escape_ninja_path(folder)
        enter = f"{limit_command()}cd {_quote_for_ninja([str(folder)])}"
        if len(self.sources) == 1:
            compiler = self._select_compiler(self.sources[0])
            tool = "-shared" if compiler is self.commands.host else "--shared"
            link_flags = [tool, *self.commands.link[1:], *self.commands.libraries]
            command = self._add_module_name([*compiler, "-MD", "-MF", "kernel.d"])
            words = _quote_for_ninja(command), _quote_for_ninja(link_flags)
            line = f"{enter} && {words[0]} -o {LIBRARY_NAME} $in {words[1]}"
            return (
                f"rule library\n  command = {line}\n"
                f"build {target}/{LIBRARY_NAME}: library {_escape_ninja_path(self.sources[0])}\n"
            )
        text, objects = "", []
        for index, source in enumerate(self.sources):
            object_file = f"{target}/{index}.o"
            command = self._add_module_name(
                [*self._select_compiler(source), "-MD", "-MF", f"{index}.d", "-c"]
            )
            line = f"{enter} && {_quote_for_ninja(command)} -o {index}.o $in"
            text += f"rule compile{index}\n  command = {line}\n"
            text += f"build {object_file}: compile{index} {_escape_ninja_path(source)}\n"
            objects.append(object_file)
        libraries = _quote_for_ninja(self.commands.libraries)
        link = f"{_quote_for_ninja(self.commands.link)} -o $out $in {libraries}"
        text += f"rule link\n  command = {link}\n"
        return f"{text}build {target}/{LIBRARY_NAME}: link {' '.join(objects)}\n"

    def _add_module_name(self, command: list[str]) -> list[str]:
        return [*command, f"-DTORCH_EXTENSION_NAME={self.module}"] if self.module else command


def build(
    subject: MeasurementSubject,
    root: Path,
    defines: Sequence[str] = (),
    timeout_s: float = _TIMEOUT_S,
) -> Build:
    """Compile one variant, or return its cached build.

    Args:
        subject: What to compile, and where it will run.
        root: The project's build folder, ``.kb/build``.
        defines: Macros, as ``NAME=VALUE``.
        timeout_s: For the compiler.

    Raises:
        EnvironmentGapError: A package or folder that the variant needs is missing.
    """
    return build_all(subject, root, [defines], timeout_s)[0]


def compute_build_digest(subject: MeasurementSubject) -> str:
    """Return a digest of a variant's sources, flags and compiler, without any macro.

    Raises:
        EnvironmentGapError: A package or folder that the variant needs is missing.
    """
    return _plan_build(subject, Path(), ()).output_folder.name


def build_all(
    subject: MeasurementSubject,
    root: Path,
    configurations: Sequence[Sequence[str]],
    timeout_s: float = _TIMEOUT_S,
) -> list[Build]:
    """Compile configurations of one variant in parallel, as many at a time as there are cores.

    The name of a build's folder is a digest of the sources, the headers that they include, the
    flags, the compiler and the CPU's architecture. A finished build is renamed into place: two
    builders at once both succeed, and a killed one leaves no lock behind.

    Args:
        subject: What to compile, and where it will run.
        root: The project's build folder, ``.kb/build``.
        configurations: For each, its macros as ``NAME=VALUE``.
        timeout_s: For all of them together.

    Returns:
        A Build for each configuration; a failed one does not stop the others.

    Raises:
        EnvironmentGapError: A package or folder that the variant needs is missing.
    """
    started = time.monotonic()
    if not subject.variant.is_compiled:
        return [_make_uncompiled_build(subject, root)]
    planned = [_plan_build(subject, root, tuple(defines)) for defines in configurations]
    missing = {p.output_folder: p for p in planned if not is_whole(p.output_folder)}
    if missing:
        require_cuda_torch(subject.variant, subject.machine)
    error_outputs = _compile_missing(list(missing.values()), subject, timeout_s) if missing else {}
    seconds = time.monotonic() - started
    return [
        _make_build_result(
            plan, plan.output_folder not in missing, error_outputs.get(plan.output_folder), seconds
        )
        for plan in planned
    ]


def _make_uncompiled_build(subject: MeasurementSubject, root: Path) -> Build:
    """Return the Build of a Python variant: a folder for what Triton compiles, no library."""
    source, variant = subject.kernel_folder, subject.variant
    digest = hashlib.sha256(read_bytes(source.folder / variant.source)).hexdigest()[:16]
    folder = root / source.kernel.id / f"{variant.target}-{variant.id}-{digest}"
    fields: dict[str, Any] = {**subject.identity_fields, "directory": str(folder), "command": ""}
    return Build(**fields, status="not-compiled", library=None, seconds=0.0)


def _plan_build(subject: MeasurementSubject, root: Path, defines: tuple[str, ...]) -> BuildPlan:
    source, variant, machine = subject
    for define in defines:
        if not define.isprintable():  # a newline would start another line of the ninja file
            raise BadValueError(f"the macro {define!r} is not one line of printable text")
    disallowed = find_disallowed_flag([f"-D{define}" for define in defines], str(source.folder))
    if disallowed is not None:
        raise BadValueError(disallowed[1])
    host = machine.compiler if variant.target == "cpu" else find_cxx() or "c++"
    located = variant.model_copy(update={"flags": locate_includes(variant.flags, source.folder)})
    commands = make_compiler_commands(located, machine, host, defines)
    sources = [(source.folder / name).resolve() for name in (variant.source, *variant.also)]
    folders = parse_include_folders(variant.flags, source.folder)
    files = [file for path in sources for file in find_source_files(path, folders)]
    compiler = commands.device if variant.target == "cuda" else commands.host
    digest = compute_digest(files, [*compiler, *commands.libraries])
    folder = root / source.kernel.id / f"{variant.target}-{variant.id}-{digest}"
    return BuildPlan(subject, defines, sources, commands, folder, module_name(variant, digest))


def _list_causes(variant: Variant, error: str) -> str:
    """Return what an error may come from: the source, the file that it names, the flags."""
    place = re.match(r"[\w.+-]+(?=[:(]\d)", error)
    causes = [variant.source]
    if place and place[0] != Path(variant.source).name:
        causes.append(f"{place[0]}, where the compiler stopped,")
    causes += ["flags in kernel.yaml"] if variant.flags else []
    return " or ".join(causes)


def _make_build_result(
    plan: BuildPlan, cached: bool, error_output: str | None, seconds: float
) -> Build:
    variant = plan.subject.variant
    fields: dict[str, Any] = {"status": "cached" if cached else "built", "module": plan.module}
    if error_output is not None:
        kept = locate_failed_log(plan.output_folder)
        keep_file(kept, error_output.encode())
        error = describe_exceeded_limit(error_output) or _describe_undefined(plan, error_output)
        error = error or find_first_error(error_output)
        fields = {
            "status": "failed",
            "error": to_one_line(error, _MAX_ERROR_LENGTH),
            "cure": f"fix {_list_causes(variant, error)} and build again",
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


def _describe_undefined(plan: BuildPlan, output: str) -> str:
    """Return which functions a linker missed and where they are; empty where it missed none."""
    symbols = list_undefined_symbols(output)
    if not symbols:
        return ""
    source, variant, _ = plan.subject
    folders = parse_include_folders(variant.flags, source.folder)
    files = [file for path in plan.sources for file in find_source_files(path, folders)]
    place = find_definition(symbols[0], files)
    where = f", which {place} defines and this build does not compile" if place else ""
    more = f"; and to {', '.join(symbols[1:4])}" if symbols[1:] else ""
    return f"undefined reference to `{symbols[0]}'{where}{more}"


def locate_failed_log(directory: Path | str) -> Path:
    """Return where the whole output of a build that failed is kept, beside its folder."""
    return Path(f"{directory}.log")


def _compile_missing(
    missing: Sequence[BuildPlan], subject: MeasurementSubject, timeout_s: float
) -> dict[Path, str]:
    """Compile each plan in a temporary folder and rename it; return the output of failed ones."""
    parent = missing[0].output_folder.parent
    with remove_afterwards(make_unfinished_folder(parent)) as folder:
        subfolders = [folder / str(index) for index in range(len(missing))]
        text = ""
        for subfolder, plan in zip(subfolders, missing, strict=True):
            subfolder.mkdir()
            rules = plan.format_ninja_rules(subfolder)
            (subfolder / "build.ninja").write_text(rules, encoding="utf-8")
            text += f"subninja {subfolder.name}/build.ninja\n"
        (folder / "build.ninja").write_text(text, encoding="utf-8")
        ninja = [find_ninja() or "ninja", "-v", "-k", "0", "-j", str(subject.machine.core_count)]
        read_paths = {path for plan in missing for path in plan.commands.read_folders}
        argv = sandbox_command(ninja, folder, read_paths)
        # Compilers write their temporary files there too, so a killed one leaves none elsewhere.
        env = {"TMPDIR": str(folder)}
        end = run_supervised(argv, log=folder / LOG_NAME, timeout_s=timeout_s, env=env, cwd=folder)
        log = (folder / LOG_NAME).read_text(encoding="utf-8", errors="replace")
        error_outputs: dict[Path, str] = {}
        for subfolder, plan in zip(subfolders, missing, strict=True):
            output = log if len(missing) == 1 else _extract_folder_log(log, subfolder)
            final = plan.output_folder
            if not (subfolder / LIBRARY_NAME).is_file():
                require_space(folder)
                timeout = f"error: the compiler took longer than {timeout_s:.0f} s"
                error_outputs[final] = timeout if end.timed_out else output
                continue
            (subfolder / LOG_NAME).write_text(output, encoding="utf-8")
            if not finish(subfolder, final):
                error_outputs[final] = f"error: the build could not be moved to {final}"
        return error_outputs


def _extract_folder_log(log: str, folder: Path) -> str:
    """Return the lines of ninja's log about one folder: its commands and their output."""
    lines: list[str] = []
    is_ours = False
    for line in log.splitlines():
        if line.startswith("[") and "] " in line:
            is_ours = f"{folder}/" in line or f"{folder} " in line
        elif line.startswith("FAILED: "):
            is_ours = f"{folder}/" in line
        if is_ours:
            lines.append(line)
    return "\n".join(lines) + "\n"


def _quote_for_ninja(command: Sequence[str]) -> str:
    return shlex.join(command).replace("$", "$$")


def _escape_ninja_path(path: Path) -> str:
    return str(path).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _read_loops(folder: Path, file: Path) -> tuple[Loop, ...]:
    report = folder / REPORT_NAME
    name = report if report.is_file() else folder / LOG_NAME
    return parse_loops(name.read_text(encoding="utf-8", errors="replace"), file)


def _read_resources(folder: Path, variant: Variant) -> tuple[KernelResources, ...]:
    log = (folder / LOG_NAME).read_text(encoding="utf-8", errors="replace")
    return parse_resources(log, variant.kernels)


def limit_command() -> str:
    """Return the beginning of a shell command that limits the compiler that it then runs.

    POSIX counts files in blocks of 512 bytes; the address space is in KiB in every shell.
    """
    cores = os.cpu_count() or 1
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    address = max(_MIN_ADDRESS_BYTES, memory) + cores * _ADDRESS_BYTES_PER_CORE
    limits = (
        (resource.RLIMIT_FSIZE, f"ulimit -f {MAX_FILE_BYTES // 512} && ", MAX_FILE_BYTES),
        (resource.RLIMIT_AS, f"ulimit -v {address // 1024} && ", address),
    )
    return "".join(command for which, command, size in limits if not _is_lower(which, size))


def _is_lower(which: int, size: int) -> bool:
    """Return whether this process's own limit is lower than ``size`` bytes."""
    soft, _ = resource.getrlimit(which)
    return soft != resource.RLIM_INFINITY and soft <= size


def describe_exceeded_limit(output: str) -> str | None:
    """Return which limit ended a compiler, by its output; None where none did."""
    lines = "\n".join(line for line in output.splitlines() if _FROM_A_TOOL.match(line))
    if _EXCEEDED.search(lines):
        return (
            f"error: the compiler's output is larger than {MAX_FILE_BYTES // 2**30} GiB; "
            "fill large arrays at run time"
        )
    if _NO_MEMORY.search(lines):
        return "error: the compiler ran out of memory; split the source, or use a smaller array"
    return None
