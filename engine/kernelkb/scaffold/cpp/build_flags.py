"""What compiling a source needs from its project: headers, options, macros, other files."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from kernelkb.safety.untrusted_text import parse_json
from kernelkb.scaffold.cpp.conditions import drop_undefined_parts, is_of_toolkit
from kernelkb.scaffold.cpp.functions import add_macros
from kernelkb.scaffold.cpp.syntax import (
    drop_comments,
    get_part,
    get_text,
    iter_declarations,
    iter_declarators,
    iter_nodes,
    parse_c,
)

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_KEPT_FLAG = re.compile(
    r"-D\w+(?:=\S*)?|-U\w+|--?std=\S+|--expt-(?:relaxed-constexpr|extended-lambda)|--use_fast_math"
    r"|--extended-lambda"
)
_SETUP_FLAG = re.compile(
    r"-U__CUDA_NO_\w+|--?std=\S+|--expt-(?:relaxed-constexpr|extended-lambda)|--extended-lambda"
    r"|-D[A-Za-z_]\w*(?:=\w*)?|--?use_fast_math"
)
_BUILD_FILES = ("Makefile", "makefile", "GNUmakefile", "*.mk", "justfile", "Justfile", "build.sh")
"""Files whose lines hold commands of a compiler, and the variables of such commands."""
_ASSIGNMENT = re.compile(r"^[ \t]*(?:export[ \t]+)?(\w+)[ \t]*[:+?]?=[ \t]*(.*)$", re.MULTILINE)
_MAKE_CALL = re.compile(r"\$[({][\w-]+[ ,][^(){}]*[)}]")
_VARIABLE = re.compile(r"\$[({](\w+)[)}]|\{\{[ ]*(\w+)[ ]*\}\}|\$(\w+)")
_MAX_DEPTH = 6
_CMAKE_CALL = re.compile(
    r"\b(?:add_compile_definitions|add_definitions|target_compile_definitions|add_compile_options"
    r"|target_compile_options|list|set|string)\s*\(([^()]*)\)"
)
_CMAKE_STANDARD = re.compile(r"CMAKE_(?:CUDA|CXX)_STANDARD\s+(\d+)|\bc(?:uda|xx)_std_(\d+)")
_LANGUAGE_FLAGS = {
    "--extended-lambda": re.compile(r"\]\s*__(?:host|device)__"),
    "--expt-relaxed-constexpr": re.compile(
        r"\bconstexpr\b[^;={(]*\(|\bstd::(?:min|max|numeric_limits|array)\b"
    ),
}
"""Options of nvcc, and the code that is not compiled without them; they change no other code."""
_HALF_FLAGS = tuple(
    f"-U__CUDA_NO_{name}__"
    for name in ("HALF_OPERATORS", "HALF_CONVERSIONS", "HALF2_OPERATORS", "BFLOAT16_CONVERSIONS")
)
"""Options that give a torch extension the operators of cuda_fp16.h, which torch switches off."""
_TORCH_HEADER = re.compile(r"#\s*include\s*[<\"](?:torch|ATen|c10)/")
_TORCH_HALF = re.compile(r"\b(?:at|c10|torch)::(?:Half|BFloat16)\b|\bAT_DISPATCH\w*|\bscalar_t\b")
_HALF_NAME = re.compile(r"\b(?:__half2?|half2?)\s+(?:const\s+)?(\w+)\s*[=;,)\[]")
_HALF_POINTER = re.compile(r"\b(?:__half2?|half2?)\s*(?:const\s*)?\*\s*(?:\w*restrict\w*\s+)?(\w+)")
_LIBRARY = re.compile(r"(cublasLt|cublas|cusparse|cusolver|curand|cufft|cudnn|nvrtc)(?:_v2|Dn)?\.h")
"""The headers of the CUDA toolkit that declare a library, with its name."""
_BUILD_FOLDER = re.compile(r"[\w./-]*include[\w./-]*|[\w./-]*csrc[\w./-]*|[\w.-]+/[\w./-]+")
_MAX_HEADERS = 400
_MAX_LOADERS = 40
"""Python files of one folder that are read for the options that they have torch compile with."""
_OTHER_PLATFORMS = (
    *("hip/", "hip_", "hipblas", "hipcub", "roc", "musa", "torch_musa/", "mudnn", "parrots/"),
    *("THC/", "sys/", "linux/", "arpa/", "netinet/", "immintrin.h", "x86intrin.h", "arm_neon.h"),
    *("windows.h", "Windows.h", "io.h", "intrin.h", "_mingw.h", "direct.h", "unistd.h"),
)
"""Headers of branches for other platforms, and of every system."""
_STANDARD = (
    *("assert.h", "ctype.h", "errno.h", "float.h", "limits.h", "locale.h", "math.h", "memory.h"),
    *("setjmp.h", "signal.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h"),
    *("stdlib.h", "string.h", "time.h", "unistd.h", "wchar.h", "omp.h"),
)


class IncludePlan(NamedTuple):
    """What a source needs besides its own text."""

    folders: tuple[Path, ...]
    flags: tuple[str, ...]
    """Macros and language options of the project's own build."""
    missing: tuple[str, ...]
    """Headers that are neither here nor known to belong to a toolkit."""
    notes: tuple[str, ...] = ()
    """Macros that the build defines in several ways, of which the first was taken, and standards
    of C++ that are too old for a launcher: one sentence each."""
    headers: tuple[Path, ...] = ()
    """The project's files that the source includes, itself or through others, nearest first."""


def plan_includes(source: Path, root: Path, files: Sequence[Path]) -> IncludePlan:
    """Return the folders, flags and missing headers; compile_commands.json counts first."""
    searched, said = _read_compile_commands(source, root)
    named = [*searched, *_list_named_folders(root)]
    folders: dict[Path, None] = {}
    edges: dict[Path, dict[str, Path | None]] = {}
    by_name: dict[str, list[Path]] = {}
    for file in files:
        by_name.setdefault(file.name, []).append(file)
    pending, seen = [source.resolve()], dict[Path, None]()
    while pending and len(seen) < _MAX_HEADERS:
        file = pending.pop(0)
        if file in seen:
            continue
        seen[file] = None
        edges[file] = {}
        for quote, name in _INCLUDE.findall(_read_text(file)):
            if quote == "<" and (_is_of_toolkit(name, file) or _is_standard(name)):
                continue
            found = _resolve(quote, name, file, [*folders], named, by_name)
            edges[file][name] = found and found[1]
            if found is None:
                continue
            folders |= {found[0]: None} if found[0] is not None else {}
            pending.append(found[1])
    flags, notes, defined = _plan_flags(source, root, said, seen)
    missing = _list_missing(source.resolve(), edges, defined)
    return IncludePlan(
        tuple(folders),
        tuple(dict.fromkeys(flags)),
        tuple(name for name in missing if _is_foreign(name)),
        (*notes, *_list_linked(source, root)),
        tuple(seen)[1:],
    )


def _plan_flags(
    source: Path, root: Path, said: Sequence[str], files: Collection[Path]
) -> tuple[list[str], list[str], set[str]]:
    """Return the flags of a build, what they leave out, and the macros that are defined."""
    every = said or _list_project_flags(source, root)
    given, notes = ([*said], list[str]()) if said else _choose_macros(every, files)
    defined = _list_defined(files, every)
    old = [f for f in given if "std=" in f and _read_standard(f) < _OLDEST_STANDARD]
    notes += [f"{flag} of the project's build was left out: C++17 is compiled" for flag in old]
    is_cuda = source.suffix in (".cu", ".cuh")
    new = [f for f in given if is_cuda and "std=" in f and _read_standard(f) > _NEWEST_STANDARD]
    notes += [f"{f} of the project's build is not known to nvcc: C++20 is compiled" for f in new]
    kept = ["-std=c++20" if f in new else f for f in given if f not in old]
    return [*kept, *_list_needed_flags(files, defined)], notes, defined


def _list_defined(files: Iterable[Path], flags: Iterable[str]) -> set[str]:
    """Return the macros that some files and the flags of a build define."""
    names = {name for file in files for name in _DEFINE.findall(_read_text(file))}
    return names | {flag[2:].partition("=")[0] for flag in flags if flag.startswith("-D")}


def _list_missing(
    source: Path, edges: Mapping[Path, Mapping[str, Path | None]], defined: Collection[str]
) -> list[str]:
    """List the headers that are not found, without those that the preprocessor leaves out.

    ``edges`` holds what each file includes, and the file of it that was found.
    """
    missing, seen, pending = dict[str, None](), {source}, [source]
    while pending:
        file = pending.pop(0)
        text = drop_undefined_parts(_read_text(file), defined)
        for _, name in _INCLUDE.findall(text):
            found = edges.get(file, {}).get(name, file)
            if found is None:
                missing.setdefault(name)
            elif found not in seen:
                seen.add(found)
                pending.append(found)
    return [*missing]


def _list_needed_flags(files: Iterable[Path], defined: Collection[str]) -> list[str]:
    """Return the options of nvcc, and the libraries, that files cannot be compiled without."""
    texts = [_read_text(file) for file in files]
    flags = [flag for flag, code in _LANGUAGE_FLAGS.items() if any(map(code.search, texts))]
    flags += _HALF_FLAGS if _needs_half_operators(re.sub(r"//[^\n]*", "", "\n".join(texts))) else ()
    whole = [drop_undefined_parts(text, defined) for text in texts]
    names = [name for text in whole for _, name in _INCLUDE.findall(text)]
    return [*flags, *(f"-l{found[1]}" for name in names if (found := _LIBRARY.fullmatch(name)))]


def _needs_half_operators(text: str) -> bool:
    """Whether a torch extension calculates with numbers of cuda_fp16.h by operators.

    Beside torch's own operators those are ambiguous, so a source with torch's types gets none.
    """
    if not _TORCH_HEADER.search(text) or _TORCH_HALF.search(text):
        return False
    pointers = set(_HALF_POINTER.findall(text))
    plain = set(_HALF_NAME.findall(text)) - pointers
    one, each = ("|".join(sorted(names)) or "$^" for names in (plain, pointers))
    number = rf"\b(?:(?:{one})\b(?:\[[^\]\n]*\])?|(?:{each})\[[^\]\n]*\])"
    return bool(
        re.search(rf"{number}\s*(?:[-+*/]=?|[<>]=?)\s*[\w(]|[\w)\]]\s*[-+*/<>]=?\s*{number}", text)
    )


def _is_standard(name: str) -> bool:
    """Whether a header in angle brackets comes with every compiler."""
    is_own = "." not in name or name in _STANDARD or name.startswith("bits/")
    return is_own or Path("/usr/include", name).is_file()


def _is_of_toolkit(name: str, file: Path) -> bool:
    return is_of_toolkit(name) and not (file.parent / name).is_file()


def _is_foreign(name: str) -> bool:
    if "/" not in name and not name.endswith((".h", ".cuh", ".hpp")):
        return False
    if name.startswith((*_OTHER_PLATFORMS, "bits/")):
        return False
    return not is_of_toolkit(name) and not Path("/usr/include", name).exists()


def _resolve(
    quote: str,
    name: str,
    file: Path,
    folders: Sequence[Path],
    named: Sequence[Path],
    by_name: Mapping[str, list[Path]],
) -> tuple[Path | None, Path] | None:
    """Return the folder that an include needs, None for the file's own, and the header."""
    beside = file.parent / name
    if beside.is_file():
        return (None if quote == '"' else file.parent), beside.resolve()
    for folder in (*folders, *named):
        if (folder / name).is_file():
            return folder.resolve(), (folder / name).resolve()
    suffix = PurePosixPath(name).parts
    found = [path for path in by_name.get(suffix[-1], ()) if path.parts[-len(suffix) :] == suffix]
    if not found:
        return None
    best = min(found, key=lambda path: (-_count_common(path, file), len(path.parts)))
    return Path(*best.parts[: -len(suffix)]).resolve(), best.resolve()


def _count_common(one: Path, other: Path) -> int:
    return len(Path(os.path.commonpath([one.resolve(), other.resolve()])).parts)


def _read_compile_commands(source: Path, root: Path) -> tuple[list[Path], list[str]]:
    """Return the folders and flags of a source's entry in compile_commands.json."""
    for path in (root / "compile_commands.json", root / "build" / "compile_commands.json"):
        try:
            entries = parse_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        rows = entries if isinstance(entries, list) else ()
        for entry in (row for row in rows if isinstance(row, dict)):
            base = Path(entry.get("directory", "."))
            if (base / entry.get("file", "")).resolve() == source.resolve():
                words = entry.get("arguments") or shlex.split(entry.get("command", ""))
                return _read_words(words, base), [w for w in words if _KEPT_FLAG.fullmatch(w)]
    return [], []


def _read_words(words: Iterable[str], base: Path) -> list[Path]:
    found, takes = [], False
    for word in words:
        if takes or (word.startswith("-I") and len(word) > 2):
            found.append(base / word.removeprefix("-I"))
        takes = word in ("-I", "-isystem")
    return [folder for folder in found if folder.is_dir()]


def _list_named_folders(root: Path) -> list[Path]:
    """List the folders that setup.py and the CMake files at the top name."""
    words: list[str] = []
    for path in sorted(root.glob("**/CMakeLists.txt"))[:20]:
        text = re.sub(r"#[^\n]*", "", _read_text(path))
        for call in re.findall(r"include_directories\s*\(([^)]*)\)", text):
            plain = re.sub(r"\$\{\w*(?:SOURCE|BINARY|LIST)_DIR\}/?", "", call)
            words += [str(path.parent.relative_to(root) / word) for word in plain.split()]
            words += plain.split()
    words += [text for text in _list_strings(root / "setup.py") if _BUILD_FOLDER.fullmatch(text)]
    return [root / word for word in dict.fromkeys(words) if (root / word).is_dir()]


def _list_project_flags(source: Path, root: Path) -> list[str]:
    """List the options and macros of the nearest build file: of make, just, CMake, Python, Bazel.

    Of several standards of the language the newest counts: a compiler takes one.
    """
    words: list[str] = []
    for folder in _list_folders_up(source, root):
        files = [file for name in _BUILD_FILES for file in sorted(folder.glob(name))[:4]]
        words += [word for file in files for word in _list_make_words(_read_make(file))]
        words += _list_cmake_words(_read_text(folder / "CMakeLists.txt"))
        words += _list_bazel_words(folder)
        found = {f: _read_text(f) for f in sorted(folder.glob("*.py"))[:_MAX_LOADERS]}
        loaders = [f for f, t in found.items() if "extra_cuda_cflags" in t and source.name in t]
        texts = [t for f in (folder / "setup.py", *loaders) for t in _list_strings(f)]
        parts = [part for text in texts if text.lstrip()[:1] == "-" for part in text.split()]
        parts = [re.sub(r"=(?:%\w|\{\w*\})$", "=", part) for part in parts]
        words += [re.sub("^-use", "--use", p) for p in parts if _SETUP_FLAG.fullmatch(p)]
        words += re.findall(r"[\"'](-[\w=+-]+)[\"']", _read_text(folder / "pyproject.toml"))
        if words:
            break
    kept = [w for w in words if _KEPT_FLAG.fullmatch(w) and "$" not in w]
    kept = [w for w in kept if "std=" not in w or "++" in w]  # not those of C
    standards = [word for word in kept if "std=" in word]
    newest = max(standards, key=_read_standard, default="")
    return [w for w in dict.fromkeys(kept) if w not in standards or w == newest]


_LINKED = re.compile(r"\btarget_link_libraries\s*\(\s*(\S+)([^()]*)\)")
_TARGET = re.compile(
    r"\b(?:cuda_)?add_(?:executable|library)\s*\(\s*(\S+)([^()]*)\)", re.IGNORECASE
)
_LINK_WORD = re.compile(r"(?:-l)?(?!cu[a-z]+(?:_static)?$|nvrtc$|torch|c10)[A-Za-z][\w+.-]*")
_LINK_KEYWORDS = ("PUBLIC", "PRIVATE", "INTERFACE", "debug", "optimized", "general", "pthread", "m")


def _list_linked(source: Path, root: Path) -> list[str]:
    """Return a sentence with the libraries that the nearest CMake file links to a source.

    Those of the toolkit are left out, and those that the project makes itself.
    """
    folders = _list_folders_up(source, root)
    text = next(filter(None, (_read_text(f / "CMakeLists.txt") for f in folders)), "")
    text = re.sub(r"#[^\n]*", "", text)
    targets = dict(_TARGET.findall(text))
    names = dict[str, None]()
    for target, listed in _LINKED.findall(text):
        files = targets.get(target, "$")
        if "$" in files or source.name in files:
            names |= dict.fromkeys(filter(_LINK_WORD.fullmatch, listed.split()))
    own = {*targets, *_LINK_KEYWORDS}
    flags = " ".join(f"-l{name.removeprefix('-l')}" for name in names if name not in own)
    return [f"CMakeLists.txt links {flags}: add what the code needs of it to flags"] * bool(flags)


def _choose_macros(flags: Sequence[str], files: Iterable[Path]) -> tuple[list[str], list[str]]:
    """Return the flags without macros that no file names, each macro once, and what that left."""
    text = "\n".join(map(_read_text, files))
    kept: dict[str, str] = {}
    others: dict[str, list[str]] = {}
    for flag in flags:
        name = re.split(r"=", flag)[0] if flag.startswith("-D") else flag
        if flag.startswith("-D") and not re.search(rf"\b{re.escape(name[2:])}\b", text):
            continue
        if kept.setdefault(name, flag) != flag:
            others.setdefault(name, []).append(flag)
    head = "the project's build defines macros in several ways"
    notes = [f"{head}: {kept[n]} was taken, and not {', '.join(o)}" for n, o in others.items()]
    return [*kept.values()], notes


_OLDEST_STANDARD = 117
"""Of C++, as ``_read_standard`` counts: the headers of a launcher, and of torch, need it."""
_NEWEST_STANDARD = 120
"""That nvcc takes, up to CUDA 13.0."""
_DRAFT_STANDARDS = {"0x": 11, "1y": 14, "1z": 17, "2a": 20, "2b": 23, "2c": 26}


def _read_standard(flag: str) -> int:
    """Return the year of a standard of C++, from 1900 or 2000: ``-std=c++17`` is 117."""
    year = _DRAFT_STANDARDS.get(flag[-2:]) or int("".join(re.findall(r"\d+", flag)) or 0)
    return year + 100 if year < 90 else year  # c++98 is older than c++11


def _list_folders_up(source: Path, root: Path) -> list[Path]:
    """List the folders from a source's up to the project's."""
    folders = [source.resolve().parent, *source.resolve().parent.parents]
    top = root.resolve()
    return [folder for folder in folders if folder == top or top in folder.parents]


def _list_make_words(text: str) -> list[str]:
    """List the words of the compiler's commands in a Makefile or a justfile, variables filled in.

    Of the macros that only a condition adds (``ifeq ($(GPU), 1)``) those for CUDA are.
    """
    text = _leave_out_conditions(re.sub(r"\\\r?\n", " ", text))
    values: dict[str, str] = {}
    for match in _ASSIGNMENT.finditer(text):
        more = match[2].partition(" #")[0].strip()
        values[match[1]] = f"{values.get(match[1], '')} {more}".strip()
    lines = [
        line for line in text.splitlines() if re.search(r"nvcc|NVCC|g\+\+|clang\+\+|CXX", line)
    ]
    names = [name for name in values if re.search(r"FLAGS|OPT|DEF|COMMON|ARGS", name.upper())]
    joined = " ".join([*lines, *(values[name] for name in names)])
    for _ in range(_MAX_DEPTH):
        joined = _VARIABLE.sub(
            lambda m: values.get(next(group for group in m.groups() if group), ""), joined
        )
    while (plain := _MAKE_CALL.sub(" ", joined)) != joined:  # $(if …), $(shell …): not run here
        joined = plain
    return [word.strip("\"',") for word in joined.split()]


def _read_make(file: Path, depth: int = 0) -> str:
    """Return the text of a Makefile, after that of the files that it includes."""
    text = _read_text(file)
    names = re.findall(r"^-?include[ \t]+([\w./-]+)", text, re.MULTILINE) if depth < 2 else []
    return "\n".join([*(_read_make(file.parent / name, depth + 1) for name in names), text])


def _leave_out_conditions(text: str) -> str:
    depth, lines = 0, []
    for line in text.splitlines():
        depth += bool(re.match(r"\s*if(?:n?eq|n?def)\b", line))
        depth -= bool(re.match(r"\s*endif\b", line))
        lines.append(re.sub(r"-D(?!\w*(?:GPU|CUDA)\b)\w\S*", "", line) if depth > 0 else line)
    return "\n".join(lines)


def _list_cmake_words(text: str) -> list[str]:
    text = _leave_out_cmake_conditions(re.sub(r"#[^\n]*", "", text))
    words = [word.strip('"') for call in _CMAKE_CALL.findall(text) for word in call.split()]
    kept = [word for word in words if word.startswith("-")]
    kept += [
        f"-D{word}"
        for call in re.findall(r"_definitions\s*\(([^()]*)\)", text)
        for word in call.split()
        if re.fullmatch(r"[A-Z][A-Z0-9_]{3,}(?:=\w+)?", word)
        and word not in ("PUBLIC", "PRIVATE", "INTERFACE")
    ]
    return kept + [f"-std=c++{m[1] or m[2]}" for m in _CMAKE_STANDARD.finditer(text)]


def _leave_out_cmake_conditions(text: str) -> str:
    """Return the text of a CMake file without the macros and options that only an if adds.

    It is not decided here, as ``if (CMAKE_BUILD_TYPE STREQUAL Debug)``. Those for CUDA stay, and
    what the code cannot be compiled without.
    """
    depth, lines = 0, []
    for line in text.splitlines():
        depth += bool(re.match(r"\s*if\s*\(", line, re.IGNORECASE))
        if depth > 0:
            line = re.sub(r"-(?!-?std=|-expt-|-extended-|D\w*(?:GPU|CUDA))[-\w]\S*", "", line)
            line = re.sub(r"(_definitions\s*\()(?![^()]*(?:GPU|CUDA))[^()]*", r"\1", line)
        depth -= bool(re.match(r"\s*endif\s*\(", line, re.IGNORECASE))
        lines.append(line)
    return "\n".join(lines)


def _list_bazel_words(folder: Path) -> list[str]:
    """List the options and macros of BUILD files."""
    text = _read_text(folder / "BUILD") or _read_text(folder / "BUILD.bazel")
    words = re.findall(r"[\"'](-[^\"'\s]+)[\"']", text)
    for listed in re.findall(r"\b(?:local_)?defines\s*=\s*\[([^\]]*)\]", text):
        words += [f"-D{name}" for name in re.findall(r"[\"']([\w=]+)[\"']", listed)]
    return words


def list_undefined_functions(text: str, headers: Sequence[str]) -> tuple[str, ...]:
    """Return the functions that a source or its headers declare and use, and do not define.

    Members of classes have the name of the class, as ``Grid::fit``; a constructor is
    ``Grid::Grid``. What only ``main`` calls is left out: its file is compiled without it.
    """
    texts = (_leave_out_main(text), *headers)
    declarations = [each for one in texts for each in iter_declarations(parse_c(one))]
    bodies = [each for each in declarations if each.body is not None]
    defined = {each.name for each in bodies}
    declared = dict.fromkeys(each.name for each in declarations if each.body is None)
    calls = Counter(re.findall(r"\b([A-Za-z_]\w*)\s*(?:<[^;(){}]*>\s*)?\(", "\n".join(texts)))
    free = [name for name in declared if name not in defined and calls[name] > 1]
    own = drop_comments(add_macros(texts[0], headers))
    methods = {"::".join([*each.scope.split("::")[-2:-1], each.name]) for each in bodies}
    members = {name: None for one in texts for name in list_members(one)}
    return (*free, *(m for m in members if m not in methods and _calls_member(own, m)))


def _leave_out_main(text: str) -> str:
    """Return a text without the body of ``main``."""
    if not is_main_alone(text):
        return text
    root = parse_c(text)
    whole = root.text or b""
    bodies = [d.body for d in iter_declarations(root) if d.name == "main" and d.body is not None]
    for own in reversed(bodies):
        whole = whole[: own.start_byte] + b"{}" + whole[own.end_byte :]
    return whole.decode() if bodies else text


def is_main_alone(text: str) -> bool:
    """Whether a text names ``main`` once, so that it can be made static, which drops it."""
    return len(re.findall(r"\bmain\b", drop_comments(text))) == 1


def list_members(text: str) -> dict[str, bool]:
    """Map the functions that the classes of a text declare and do not define to being static."""
    if not re.search(r"\b(?:class|struct)\b[^;{}]*\{", text):
        return {}
    found = {}
    for node in iter_nodes(parse_c(text)):
        body, name = node.child_by_field_name("body"), get_part(node, "name")
        is_class = node.type in ("class_specifier", "struct_specifier") and body is not None
        if not is_class or (node.parent and node.parent.type == "template_declaration"):
            continue
        for each in body.named_children if body is not None else ():
            chain = list(iter_declarators(each)) if each.type.endswith("declaration") else []
            at = next((n for n, c in enumerate(chain) if c.type == "function_declarator"), None)
            member = get_text(chain[at + 1]) if at is not None and chain[at + 1 :] else ""
            if member.isidentifier() and not re.search(r"=\s*(?:0|default|delete)", get_text(each)):
                is_static = bool(re.match(r"[^(]*\bstatic\b", get_text(each)))
                found[f"{name}::{member}"] = is_static
    return found


_OF_CONTAINERS = (
    *("at", "back", "begin", "c_str", "clear", "count", "data", "empty", "end", "erase", "find"),
    *("front", "get", "insert", "join", "length", "open", "pop_back", "push_back", "reserve"),
    *("reset", "resize", "size", "str", "swap", "top"),
)
"""Members of the standard library's classes, too."""


def _calls_member(text: str, member: str) -> bool:
    """Whether a text calls a member of a class that it names, or makes an object of that class."""
    kind, _, name = member.partition("::")
    if name in _OF_CONTAINERS and not re.search(rf"\b{kind}\b", text):
        return False
    if kind == name:
        made = rf"(?<!class )(?<!struct )\b{kind}\b(?:\s+\w+)?\s*(?:[({{;]|>\s*\()"
        return bool(re.search(made, text))
    is_inside = re.search(rf"\b{kind}\s*::\s*~?\w+\s*\(", text)
    own = rf"|(?<![\w.>:]){name}\s*\(" if is_inside else ""
    return bool(re.search(rf"(?:\.|->|::)\s*{name}\s*\({own}", text))


def defines_any(text: str, names: Sequence[str]) -> bool:
    """Whether C++ or CUDA text defines one of some functions, or members as ``Grid::fit``."""
    if not any(name.rpartition("::")[2] in text for name in names):
        return False
    return any(
        each.body is not None and f"::{each.scope}{each.name}".endswith(f"::{name}")
        for each in iter_declarations(parse_c(text))
        for name in names
    )


def needs_relocatable_code(texts: Sequence[str], names: Sequence[str]) -> bool:
    """Whether one of some functions is device code of another file, which nvcc has to link."""
    ends = "|".join(re.sub(r"::", r"\\s*::\\s*", each) for each in names) or "(?!)"
    defined = re.compile(rf"__device__[^;{{}}()]*\b(?:{ends})\s*\([^;{{}}]*\{{")
    return any(defined.search(drop_comments(text)) for text in texts)


def find_submodule(header: str, root: Path) -> str:
    """Return the command that brings a missing header's submodule; empty where none is known."""
    paths = re.findall(r"^\s*path\s*=\s*(\S+)", _read_text(root / ".gitmodules"), re.MULTILINE)
    empty = [p for p in paths if not any((root / p).glob("*"))]
    part = PurePosixPath(header).parts[0].partition(".")[0].lower()
    named = [p for p in empty if part in PurePosixPath(p).name.lower()]
    if not empty:
        return ""
    return f"git submodule update --init {(named or empty)[0] if named else ''}".strip()


def _list_strings(file: Path) -> list[str]:
    """List the strings of a Python file."""
    try:
        tree = ast.parse(_read_text(file))
    except (SyntaxError, ValueError, RecursionError):
        return []
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [node.value for node in nodes if isinstance(node.value, str)]


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""
