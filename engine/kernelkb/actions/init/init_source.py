"""Finds the source file of kb init, the one kernel of it to draft, and the files around it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import BadValueError
from kernelkb.model.kernels.languages import COMPILED_SUFFIXES, HEADER_SUFFIXES, LANGUAGES
from kernelkb.safety.paths import project_root
from kernelkb.scaffold.cpp.build_flags import (
    defines_any,
    find_submodule,
    list_undefined_functions,
    plan_includes,
)
from kernelkb.scaffold.cpp.element_types import find_dtype
from kernelkb.scaffold.cpp.source import (
    summarize_c_source,
    summarize_included,
)
from kernelkb.scaffold.draft import Function, SourceSummary, to_field_name
from kernelkb.scaffold.python.embedded import describe_unread_cuda
from kernelkb.scaffold.python.source import PYTHON_LANGUAGES, summarize_python

_SOURCE_SUFFIXES = tuple({suffix for row in LANGUAGES.values() for suffix in row.suffixes})
_SKIPPED_FOLDERS = (
    *(".git", ".venv", "venv", "node_modules", "build", "dist", ".kb", "__pycache__"),
)
_MAX_FILES = 5000
"""Files that the search for a kernel looks at, so that a home folder does not take minutes."""
_MAX_HEADERS = 50_000
_MOJO = "Mojo is not supported: KernelKB builds CUDA and C++ and runs Python"


def summarize_source(name: str, text: str) -> SourceSummary | None:
    """Return the kernels and launchers of a source file, None where it holds neither.

    Args:
        name: The file's name; its suffix decides how it is read.
        text: What the file holds.
    """
    return summarize_python(text) if name.endswith(".py") else summarize_c_source(name, text)


class KernelSource(NamedTuple):
    """A kernel's source, and the project and name of its kernel folder."""

    path: Path
    analysis: SourceSummary
    root: Path
    name: str

    @property
    def folder(self) -> Path:
        """The kernel folder; it may not exist yet."""
        return self.root / "kernels" / self.name

    def path_from_folder(self, path: Path) -> str:
        """Return a path relative to the kernel folder, with forward slashes."""
        return Path(os.path.relpath(path.resolve(), self.folder.resolve())).as_posix()


def find_source(file: str | None, name: str | None, kernel: str | None) -> KernelSource:
    """Return the source to draft for, and the name of its folder.

    Args:
        file: Its path; by default the project's only file with a kernel.
        name: The folder's name; by default the file's, or the kernel's where one is chosen.
        kernel: The function of the file; it decides the name where the file holds several.

    Raises:
        BadValueError: There is no kernel, or the name is not valid.
    """
    root = Path(project_root())
    path = Path(file) if file else _find_only_kernel(root)
    if path.suffix in (".mojo", ".🔥"):
        raise BadValueError(_MOJO)
    text = read_source_text(path)
    summary = _summarize(path, text, root, kernel)
    if summary is None and path.suffix in COMPILED_SUFFIXES and "__global__" in text:
        raise BadValueError(
            f"{path} names __global__, but no kernel of it can be read: it is made by a macro, or "
            "the text around it is not understood; name the file that a kernel is written out in"
        )
    told = describe_unread_cuda(str(path), text) if path.suffix == ".py" else ""
    if summary is None and told:
        raise BadValueError(told)
    if summary is None:
        raise BadValueError(
            f"{path} holds no kernel that kb init recognises: no __global__ function, no "
            f'extern "C" function, no function of tensors that a module exports, no triton.jit or '
            f"cute.jit with a function that launches it, no CUDA text in a string, no Model with "
            f"get_inputs"
        )
    if name and to_field_name(name) != name:
        raise BadValueError(
            f"--name {name!r} is not a valid kernel name; try --name {to_field_name(name)}"
        )
    is_one_of_several = len(summary.functions) > 1 or kernel in [f.name for f in summary.inner]
    default = kernel if kernel and is_one_of_several else path.stem
    return KernelSource(path, summary, root, name or to_field_name(default))


def _summarize(path: Path, text: str, root: Path, kernel: str | None) -> SourceSummary | None:
    """Return the kernels of a source; those of its headers where it has none, or not the chosen."""
    summary = summarize_source(path.name, text)
    is_asked = summary is None or (kernel and not _holds(summary, kernel))
    if path.suffix in COMPILED_SUFFIXES and (is_asked or _names_types_of_others(summary)):
        headers = read_headers(plan_includes(path, root, list_headers(root)).headers)
        summary = summarize_c_source(path.name, text, headers)
        is_asked = summary is None or (kernel and not _holds(summary, kernel))
        included = summarize_included(text, headers) if is_asked else None
        if included is not None and (summary is None or _holds(included, kernel)):
            return included
    return summary


def _names_types_of_others(summary: SourceSummary | None) -> bool:
    """Whether a header may say more: of a name, a class, or a type that stands for a pointer's."""
    functions = summary.functions if summary is not None else ()
    if any(each.scope or not each.name.isidentifier() for each in functions):
        return True  # of a namespace, of a class of a header, or NAME(scale) by its macro
    kinds = {p.type for each in functions for p in each.parameters if p.role == "number"}
    return any(re.fullmatch(r"[\w:]+", kind) and not find_dtype(kind) for kind in kinds)


def _holds(summary: SourceSummary, kernel: str | None) -> bool:
    every = (*summary.functions, *summary.inner)
    return any(kernel in (each.name, *each.launches) for each in every)


def choose_function(source: KernelSource, kernel: str | None) -> Function:
    """Return the function to draft for.

    Raises:
        BadValueError: The file holds several and none is chosen, or none of that name.
    """
    function = _choose_named(source, kernel)
    if function.style == "bound":
        raise BadValueError(_describe_unwritten(source, function.name))
    return function


def _choose_named(source: KernelSource, kernel: str | None) -> Function:
    functions = source.analysis.functions
    if not functions:
        raise BadValueError(_describe_unlaunched(source))
    if kernel is None:
        ready = [each for each in functions if each.is_variant]
        if len(functions) == 1 or len(ready) == 1:
            return (ready or list(functions))[0]
        raise BadValueError(_format_menu(source, f"{source.path} holds {len(functions)} kernels"))
    kernel = _find_applied(read_source_text(source.path), kernel) or kernel
    named = [each for each in (*functions, *source.analysis.inner) if each.name == kernel]
    named = named or [each for each in functions if kernel in each.launches]
    if not named and source.analysis.kind in PYTHON_LANGUAGES and find_definition(source, kernel):
        raise BadValueError(
            f"{source.path} defines {kernel}, and no function of tensors in it launches it; record "
            f'a run: kb init {source.path} --kernel {kernel} --from "python PROGRAM"'
        )
    host = next((each for each in source.analysis.of_host if each.name == kernel), None)
    if not named and host is not None:
        words = ["kb", "init", str(source.path), "--kernel", host.launches[0]]
        raise BadValueError(
            f"{kernel} takes no arrays of the device: it copies or reads memory of the host; draft "
            f"a kernel that it starts ({', '.join(host.launches)}): {shlex.join(words)}"
        )
    if not named:
        raise BadValueError(_format_menu(source, f"{source.path} has no kernel {kernel!r}"))
    return named[0]


def find_definition(source: KernelSource, name: str) -> str:
    """Return how a run's record names what a Python file defines; empty where it does not."""
    text, word = read_source_text(source.path), re.escape(name)
    found = re.search(rf"(?m)^([ \t]*)(?:(?:async +)?def|class) +{word}\b|^(){word} *=", text)
    if found is None:
        return ""
    path = source.path.resolve()
    module = path.parent.name if path.stem == "__init__" else path.stem
    return name if found[1] else f"{module}:{name}"


def _find_applied(text: str, name: str) -> str:
    """Return the autograd class that a name of a file, or a function, applies; else nothing."""
    line = re.search(rf"(?m)^{re.escape(name)} *= *(\w+)\.apply\b", text)
    body = re.search(rf"(?m)^def {re.escape(name)}\b.*\n(?:[ \t)].*\n?|\n)*", text)
    applied = {*re.findall(r"\b(\w+)\.apply\(", body[0])} if body else set[str]()
    return line[1] if line else applied.pop() if len(applied) == 1 else ""


def _describe_unwritten(source: KernelSource, name: str) -> str:
    """Return which file defines a function that a module only exports."""
    head = f"{source.path} exports {name}, and its text is not in that file"
    found = find_near_definers(source.path, [name])
    if not found:
        return f"{head}; no file below {source.root} defines it: name the file that does"
    path = Path(os.path.relpath(found[0], Path.cwd())).as_posix()
    return f"{head}; name the file that defines it: kb init {path} --kernel {name}"


def _describe_unlaunched(source: KernelSource) -> str:
    """Return where the kernels of a Python file are launched, else that a run can tell."""
    text = read_source_text(source.path)
    names = re.findall(r"\bjit\b[^\n]*\n(?:\s*@[^\n]*\n)*\s*def (\w+)", text)
    launch = re.compile(rf"\b(?:{'|'.join(names) or '(?!)'})\[")
    run = f'record a run: kb init --from "python PROGRAM" --op {names[0] if names else "NAME"}'
    if own := launch.search(text):
        line = text.count("\n", 0, own.start()) + 1
        return (
            f"{source.path} launches {own[0][:-1]} in line {line}, in no function of tensors that "
            f"can be called alone, as a method of a module is not; {run}; or write a function that "
            "takes the tensors"
        )
    path = source.path.resolve()
    files = (each for each in iter_sources(source.root) if each.suffix == ".py")
    near = [each for each in files if each.resolve() != path]
    near.sort(key=lambda each: each.stem != path.stem)
    near = [each for each in near if launch.search(read_source_text(each))]
    found = next((each for each in near if _has_functions(each)), None)
    head = f"{source.path} has a kernel, but no function that launches it"
    if found is not None:
        return f"{head}; {found.relative_to(source.root)} does: name that file"
    if near:
        return f"{head}; {near[0].relative_to(source.root)} does, in no function of tensors; {run}"
    return f"{head}; name the file that does, or {run}"


def _has_functions(path: Path) -> bool:
    """Whether a Python file has a function that launches a kernel, and that can be drafted."""
    summary = summarize_python(read_source_text(path))
    return summary is not None and bool(summary.functions)


def _format_menu(source: KernelSource, head: str) -> str:
    """Return what a file holds, with lines, and the call to make."""
    rows = []
    functions = source.analysis.functions
    for each in functions:
        kind = "kernel" if each.is_kernel else "launcher"
        if each.launches:
            kind += f" of {', '.join(each.launches)}"
        where = f"line {each.line}" if each.line else "of another file"
        rows.append(f"  {where}: {each.name} ({kind})")
    words = ["kb", "init", str(source.path), "--kernel", functions[0].name]
    return "\n".join([f"{head}; choose one:", *rows, f"for example: {shlex.join(words)}"])


def read_source_text(path: Path) -> str:
    """Return a file's text.

    Raises:
        BadValueError: It cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise BadValueError(f"cannot read {path}: {error.strerror}") from error


def _find_only_kernel(root: Path) -> Path:
    kernels = [
        path
        for path in iter_sources(root)
        if summarize_source(path.name, read_source_text(path)) is not None
    ]
    if not kernels:
        raise BadValueError(f"no kernel found below {root}; name its source: kb init FILE")
    if len(kernels) > 1:
        names = ", ".join(str(path.relative_to(root)) for path in kernels[:8])
        raise BadValueError(f"{len(kernels)} files hold kernels; name one: kb init FILE ({names})")
    return kernels[0]


def iter_sources(root: Path) -> Iterator[Path]:
    """Yield the files below a folder that may hold kernels, without build and tool folders."""
    yield from _iter_files(root, _SOURCE_SUFFIXES, _MAX_FILES)


def list_headers(root: Path) -> list[Path]:
    """List the headers and sources below a folder that a source may include."""
    suffixes = (*HEADER_SUFFIXES, *COMPILED_SUFFIXES)
    return list(_iter_files(root, suffixes, _MAX_HEADERS))


def _iter_files(root: Path, suffixes: tuple[str, ...], most: int) -> Iterator[Path]:
    count = 0
    for folder, subfolders, names in os.walk(root):
        if "kernel.yaml" in names:  # a kernel folder of KernelKB
            subfolders.clear()
            continue
        subfolders[:] = sorted(name for name in subfolders if name not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            count += 1
            if name.endswith(suffixes) and count <= most:
                yield Path(folder) / name


_MAX_READ_HEADERS, _MAX_BYTES = 40, 200_000
"""Headers that are read for a draft, and the size of each."""
_MAX_CALLERS = 400
"""Files that are searched for a launch or a function that is not in the kernel's own file."""


def read_headers(paths: Iterable[Path]) -> tuple[str, ...]:
    """Return what a source's headers hold, without those that are too large to be its own."""
    small = [path for path in paths if path.stat().st_size <= _MAX_BYTES]
    return tuple(read_source_text(path) for path in small[:_MAX_READ_HEADERS])


def includes_torch(texts: Iterable[str]) -> bool:
    """Whether a source or one of the project's headers includes a header of torch."""
    include = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:torch|ATen|c10)/", re.MULTILINE)
    return any(map(include.search, texts))


def read_callers(source: Path, kernel: str, text: str) -> tuple[str, ...]:
    """Return what the nearest file holds that launches a source's kernel, if it has none itself.

    It includes the source, or a header that names the kernel, and defines no other one.

    Args:
        source: The file with the kernel.
        kernel: The kernel's name.
        text: What the file holds; none is searched for where it launches the kernel itself.
    """
    launch = re.compile(rf"\b{re.escape(kernel)}\s*(?:<[^;{{}}()]*>\s*)?<<<")
    if launch.search(text):
        return ()
    for path in _iter_near(source.resolve()):
        other = read_source_text(path) if path.stat().st_size <= _MAX_BYTES else ""
        if not launch.search(other) or defines_any(other, (kernel,)):
            continue
        names = {Path(m[1] or m[2].strip("<>")).name for m in _INCLUDED.finditer(other)}
        headers = (h for h in list_headers(Path(project_root())) if h.name in names)
        if source.name in names or any(kernel in each for each in read_headers(headers)):
            return (other,)
    return ()


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
        if path.suffix in (".cu", ".cpp", ".cc", ".c") and path.stat().st_size <= _MAX_BYTES
    }
    for name in wanted:
        definers = (path for path, text in texts.items() if defines_any(text, (name,)))
        if (nearest := next(definers, None)) is not None:
            found.setdefault(nearest)
    return [*found]


def _is_of_header(name: str, root: Path) -> bool:
    """Whether a header of a project defines a function, as one that holds its library does."""
    bare = re.escape(name.rpartition("::")[2])
    body = re.compile(rf"\b{bare}\s*\([^;{{}}]*\)[^;{{}}()=]*\{{")
    headers = [path for path in list_headers(root) if path.suffix in HEADER_SUFFIXES]
    return any(body.search(read_source_text(path)) for path in headers[:_MAX_CALLERS])


_MAX_DEFINERS = 8


class Related(NamedTuple):
    """What is compiled with a source."""

    files: tuple[Path, ...]
    """Those that define functions that it, or one of them, declares and uses."""
    folders: tuple[Path, ...]
    """Of the headers that these files include."""
    missing: tuple[str, ...]
    """Functions that no file defines."""
    headers: tuple[str, ...] = ()
    """Those that these files include, and that are not here."""
    names: tuple[str, ...] = ()
    """Functions that are used and defined in another file than that which uses them."""


def find_related(path: Path, root: Path, names: Sequence[str]) -> Related:
    """Return the files that define functions, and those that these files need in turn.

    Args:
        path: The source that uses them.
        root: The project.
        names: Of functions that the source does not define.
    """
    found, missing, pending = dict[Path, None](), dict[str, None](), [*names]
    seen, folders, headers = dict.fromkeys(names), dict[Path, None](), dict[str, None]()
    while pending and len(found) < _MAX_DEFINERS:
        name = pending.pop(0)
        own = [path, *found]
        if any(defines_any(read_source_text(each), (name,)) for each in own):
            continue
        new = find_near_definers(path, [name])
        if not new and not _is_of_header(name, root):
            missing.setdefault(name)
        for each in new:
            found.setdefault(each)
            plan = plan_includes(each, root, list_headers(root))
            folders |= dict.fromkeys(plan.folders)
            headers |= dict.fromkeys(plan.missing)
            more = list_undefined_functions(read_source_text(each), read_headers(plan.headers))
            pending += [n for n in more if n not in seen]
            seen |= dict.fromkeys(more)
    known = {name.rpartition("::")[2] for name in seen if name not in missing}
    left = (n for n in missing if "::" not in n or n.rpartition("::")[2] not in known)
    return Related((*found,), (*folders,), (*left,), (*headers,), (*seen,))


def describe_missing(header: str, root: Path) -> str:
    """Return what is missing for a build, and the command that brings it."""
    text = f"header {header} was not found below {root}"
    cure = find_submodule(header, root)
    return f"{text}: {cure}" if cure else f"{text}; add its folder to flags, as -I../../include"


_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|(<[^>\n]+>))', re.MULTILINE)


_LIBRARY = re.compile(r"<cu(?:blas|sparse|dnn|fft|rand|solver|tensor)|<(?:cub|thrust|nccl|opencv)")
"""Headers of libraries, which a kernel seldom needs and which may not be installed."""


def find_headers_before(source: KernelSource) -> tuple[tuple[str, ...], list[Path]]:
    """Return what the nearest file that includes a source includes before it.

    Args:
        source: What its own lines include is left out; of a header that includes something, all.

    Returns:
        Each as an include names it, ``"../a.h"`` or ``<cmath>``; and the project's files of them.
    """
    path = source.path.resolve()
    own = {m[2] or Path(m[1]).name for m in _INCLUDED.finditer(read_source_text(path))}
    for other in _iter_near(path) if path.suffix not in HEADER_SUFFIXES or not own else ():
        text = read_source_text(other) if other.stat().st_size <= _MAX_BYTES else ""
        found = [m[2] or (other.parent / m[1]).resolve() for m in _INCLUDED.finditer(text)]
        if path in found:
            before = [n for n in found[: found.index(path)] if Path(n).name not in own]
            files = [n for n in before if isinstance(n, Path) and n.is_file()]
            named = {n: f'"{source.path_from_folder(n)}"' for n in files}
            system = {n: n for n in before if isinstance(n, str) and not _LIBRARY.match(n)}
            return tuple((named | system)[n] for n in before if n in named or n in system), files
    return (), []


def _iter_near(source: Path) -> list[Path]:
    """List the project's other compiled files, those with the most folders in common first."""
    suffixes, root = (*COMPILED_SUFFIXES, ".c"), Path(project_root()).resolve()
    files = [path.resolve() for path in _iter_files(root, suffixes, _MAX_FILES)]
    others = [path for path in files if path != source]

    def rank(path: Path) -> tuple[int, int]:
        return -len(Path(os.path.commonpath((path, source))).parts), len(path.parts)

    return sorted(others, key=rank)[:_MAX_CALLERS]
