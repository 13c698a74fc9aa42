"""Sets up a kernel in a user's project: drafts its files, and overwrites nothing."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.actions.init.init_imports import list_missing_imports
from kernelkb.actions.init.init_source import (
    KernelSource,
    Related,
    choose_function,
    describe_missing,
    find_headers_before,
    find_related,
    find_source,
    includes_torch,
    list_headers,
    read_callers,
    read_headers,
    read_source_text,
)
from kernelkb.actions.kernels.foreign_tasks import make_task_files
from kernelkb.actions.project.bench_target import validate_machine
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.profile.observe import TIMEOUT_S, record_launches
from kernelkb.model.base import Name, Record, Target
from kernelkb.safety.files import replace_file
from kernelkb.safety.paths import shipped_folder
from kernelkb.safety.storage import describe_write_cure
from kernelkb.scaffold.answers import read_answers, read_said, refuse_unknown
from kernelkb.scaffold.cpp.build_flags import (
    defines_any,
    list_undefined_functions,
    needs_relocatable_code,
    plan_includes,
)
from kernelkb.scaffold.cpp.drafts import answer_launches, draft_pointer_files, draft_tensor_files
from kernelkb.scaffold.draft import (
    DRAFTED_VARIANT,
    OWN_REFERENCE,
    REFERENCE_KEY,
    WORKLOADS,
    DraftedFiles,
    DraftQuestion,
    DraftRequest,
    Observed,
    to_field_name,
)
from kernelkb.scaffold.python.embedded import describe_copy
from kernelkb.scaffold.python.source import PYTHON_LANGUAGES, draft_python_files

_PROJECT_FILES = {
    "sessions/README.md": "Session records, one file each. kb session list prints them.\n",
    ".kb/.gitignore": "*\n",
    "knowledge/README.md": "Own patterns and thresholds, added to those of KernelKB.\n",
}
_MCP_SERVER = {"command": "kb-mcp", "args": []}
_MANUAL_CURE = "add kb-mcp to your client by hand, for example: claude mcp add kernelkb -- kb-mcp"


class WriteResult(NamedTuple):
    """Files relative to the project: written, and left as they were; and warnings."""

    new: list[str]
    existing: list[str]
    warnings: list[str]


def write_project(root: Path, files: dict[str, str], replaced: Collection[str] = ()) -> WriteResult:
    """Write a kernel's files, the project's folders, and the server's entry in .mcp.json.

    Args:
        root: The project's folder.
        files: Text by path below ``root``; existing files are kept.
        replaced: Those of ``files`` that are written even so.

    Raises:
        BadValueError: A file cannot be written.
    """
    result = WriteResult([], [], [])
    for relative, text in {**files, **_PROJECT_FILES}.items():
        if relative not in replaced and (root / relative).exists():
            result.existing.append(relative)
        else:
            _write_file(root / relative, text)
            result.new.append(relative)
    _add_mcp_server(root / ".mcp.json", result)
    return result


def _write_file(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError as error:
        cure = describe_write_cure(error, "name a project that you may write to")
        raise BadValueError(f"cannot write {path}: {error.strerror}; {cure}") from error


def _add_mcp_server(path: Path, result: WriteResult) -> None:
    """Add kb-mcp to the servers of .mcp.json, which the project's MCP clients read."""
    try:
        config = _read_client_config(path)
    except ValueError as error:
        result.existing.append(path.name)
        result.warnings.append(f"kb-mcp is not in {path.name}, which {error}; {_MANUAL_CURE}")
        return
    servers = config.get("mcpServers") or {}
    if "kernelkb" in servers:
        result.existing.append(path.name)
        return
    servers = {**servers, "kernelkb": _MCP_SERVER}
    _write_file(path, json.dumps({**config, "mcpServers": servers}, indent=2) + "\n")
    result.new.append(path.name)


def _read_client_config(path: Path) -> dict[str, Any]:
    """Return the object in .mcp.json; empty where there is no file.

    Raises:
        ValueError: An entry cannot be added; the text says why.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ValueError("is not a JSON object")
    if not isinstance(config.get("mcpServers") or {}, dict):
        raise ValueError("has mcpServers that are not a JSON object")
    return config


class InitResult(Record):
    """The files that ``kb init`` wrote and kept, and what is left to fill in."""

    kernel: Name
    root: str
    """The project's folder."""
    written: tuple[str, ...]
    """New files, relative to ``root``."""
    kept: tuple[str, ...]
    """Files that existed and were not changed, relative to ``root``."""
    warnings: tuple[str, ...] = ()
    """Further kernels in the file, a shipped kernel that is hidden, an entry that was not added."""
    to_fill: tuple[str, ...]
    """What is to be said with ``--set``, as ``x=[m, k]  # a guess; line 4: y[i] = x[j];``; of files
    that were changed since, the lines with a mark. Empty when the kernel can be measured."""
    next: str
    """The next command."""
    say: str = ""
    """The command that says what ``to_fill`` asks for, with the guesses; ? where there is none."""
    is_usable: bool = True
    """Whether the written code repeats what was recorded; ``next`` is the cure where not."""


def init_project(
    file: str | None = None,
    candidate: str | None = None,
    target: TargetChoice = "auto",
    name: str | None = None,
    kernel: str | None = None,
    answers: Sequence[str] = (),
    run: tuple[str, Sequence[str]] = ("", ()),
) -> InitResult:
    """Write a kernel folder, sessions, the ignore file, the overlay and the client's entry.

    Existing files are kept, other than an unchanged draft, which answers fill in.

    Args:
        file: The kernel's source, or a KernelBench task; by default the project's only kernel.
        candidate: For a task, the file with ``ModelNew``.
        target: Where it will run; ``auto`` depends on the source, for a task on the machine.
        name: The kernel's name; by default the file's.
        kernel: The function to draft for, where the file holds several.
        answers: What the source does not say: ``x=[m, k]``, ``x.role=input``, ``eps=1e-6``; a name
            alone takes the guess for it. Earlier answers stay.
        run: A program, and the answers that were observed in a run of it; ``answers`` win.

    Raises:
        BadValueError: No kernel, more than one, a folder of that name of another source, or an
            answer to nothing.
    """
    source = find_source(file, name, kernel)
    if source.analysis.kind in ("kernelbench", "candidate"):
        pair, warnings = _draft_task_pair(source, candidate, target)
        drafted, replaced = DraftedFiles(pair), frozenset[str]()
    else:
        drafted, replaced, warnings = _draft_with_answers(source, target, kernel, answers, run)
    _refuse_draft(source, drafted)
    place = f"kernels/{source.name}/"
    files = {place + n: text for n, text in drafted.files.items()}
    done = write_project(source.root, files, {place + n for n in replaced})
    left = _list_what_is_left(source, kernel, drafted)
    return _make_result(source, done, warnings, left)


def init_launches(
    file: str,
    command: str,
    kernel: str | None = None,
    name: str | None = None,
    answers: Sequence[str] = (),
    timeout_s: float = TIMEOUT_S,
) -> InitResult:
    """Draft a kernel of a C++ program with the sizes, numbers and launches of a run of it.

    Args:
        file: The kernel's source.
        command: The program, as typed into a shell.
        kernel: The function to draft for, where the file holds several.
        name: The kernel's name; by default the file's.
        answers: What neither says; they outrank the run.
        timeout_s: For the program.

    Raises:
        BadValueError: As ``init_project``; or the program fails or never launches the kernel.
    """
    source = find_source(file, name, kernel)
    started = _choose_started(source, kernel)
    with scratch_folder() as folder:
        launches = record_launches(command, started, folder, timeout_s)
    given = _read_given(source, kernel, answers)
    request, _ = _make_request(source, "cuda", kernel, given)
    seen = answer_launches(_add_related(request, source)[0], launches)
    asked = _draft_files(source, "cuda", kernel, given)[0]
    said = _list_observed(
        seen.answers, asked, lambda run: _draft_files(source, "cuda", kernel, {**run, **given})[0]
    )
    program = " ".join(command.split())
    result = init_project(file, None, "cuda", name, kernel, answers, (program, said))
    warnings = (*seen.warnings, *result.warnings)
    return result.model_copy(update={"warnings": warnings, "next": result.say or result.next})


def _list_observed(
    seen: Mapping[str, str], asked: DraftedFiles, draft: Callable[[dict[str, str]], DraftedFiles]
) -> list[str]:
    """Return the answers of a run to what a draft has; of its launch those to what is asked.

    All of the launch is, where the draft asks less with it: then the text does not show all of it.
    """
    known = {to_field_name(n) for n in asked.names}
    launch = {key: seen[key] for key in _LAUNCH_WORDS if key in seen}
    told = {q.key.lower() for q in asked.questions} & launch.keys()
    is_of_all = "|" not in seen.get(WORKLOADS, "") or " / " in launch.get("grid", "")
    if launch and not told and is_of_all:
        told = {*launch} if len(draft(launch).questions) < len(asked.questions) else told
    return [
        f"{key}={value}"
        for key, value in seen.items()
        if to_field_name(key.split(".")[0]) in known and (key not in launch or key in told)
    ]


def _read_given(source: KernelSource, kernel: str | None, answers: Sequence[str]) -> dict[str, str]:
    """Return what was said with a value, by names as a draft without it has them."""
    names = _draft_files(source, "cuda", kernel, {})[0].names
    return read_answers([word for word in answers if "=" in word], names=names)


def _choose_started(source: KernelSource, kernel: str | None) -> str:
    """Return the kernel whose launches are recorded: itself, or the one that a launcher starts."""
    function = choose_function(source, kernel)
    started = [function.name] if function.is_kernel else [*function.launches]
    started = [kernel] if kernel in started else started
    if source.analysis.kind != "cuda" or len(started) != 1:
        kernels = f"; it starts {', '.join(started)}" if started else ""
        raise BadValueError(
            f"--from with a file takes a kernel of a C++ program{kernels}: name one with --kernel"
        )
    return started[0]


_LAUNCH_WORDS = ("grid", "block", "shared")
"""What a run says only where the text does not: a grid that depends on sizes is for all of them."""


class _Left(NamedTuple):
    """What is left to do for a drafted kernel."""

    to_fill: tuple[str, ...]
    next: str
    say: str


def _list_what_is_left(source: KernelSource, kernel: str | None, drafted: DraftedFiles) -> _Left:
    """Return what the written files leave open: as questions, of changed files as their lines."""
    if drafted.questions and _is_as_drafted(source, drafted.files):
        say = _name_answers(source, kernel, drafted.questions)
        marks = tuple(map(_format_question, drafted.questions))
        is_told = any(q.key != REFERENCE_KEY for q in drafted.questions)
        run = _name_recording(source, kernel, is_told=is_told)
        return _Left(marks, run or say, say)
    marks, step = tuple(_find_marks(source.folder)), _name_step(source.name, drafted.files)
    return _Left(marks, f"fill in the marks, then {step}" if marks else step, "")


def _make_result(
    source: KernelSource, done: WriteResult, warnings: Sequence[str], left: _Left
) -> InitResult:
    return InitResult(
        kernel=source.name,
        root=str(source.root),
        written=tuple(done.new),
        kept=tuple(done.existing),
        warnings=tuple(dict.fromkeys((*warnings, *_list_shadow_warnings(source), *done.warnings))),
        to_fill=left.to_fill,
        next=left.next,
        say=left.say,
    )


def _draft_with_answers(
    source: KernelSource,
    target: TargetChoice,
    kernel: str | None,
    answers: Sequence[str],
    run: tuple[str, Sequence[str]],
) -> tuple[DraftedFiles, frozenset[str], list[str]]:
    """Return a draft with what was told now and before, and which of its files it replaces.

    Raises:
        BadValueError: An answer is to nothing, or the folder was changed since it was drafted.
    """
    yaml = source.folder / "kernel.yaml"
    said, earlier = read_said(read_source_text(yaml) if yaml.is_file() else "")
    before, warnings = _draft_files(source, target, kernel, said, earlier)
    program, seen = run
    if not answers and not seen:
        return before, frozenset(), warnings
    observed = read_answers(seen, takes_doubt=True, names=before.names)
    own = read_answers(answers, before.questions, names=before.names)
    given = observed | own
    refuse_unknown(given, before)
    keys = (frozenset(observed) if seen else earlier.keys) - frozenset(own)
    told = Observed(keys, program or earlier.program)
    after, warnings = _draft_files(source, target, kernel, said | given, told)
    if yaml.is_file() and not _is_as_drafted(source, before.files):
        raise BadValueError(
            f"kernels/{source.name} was changed since kb init drafted it; "
            "write the answers into its files, or delete the folder"
        )
    return after, frozenset(before.files), warnings


def _is_as_drafted(source: KernelSource, files: Mapping[str, str]) -> bool:
    """Whether a kernel's folder holds the files of a draft as they were written."""
    written = {source.folder / name: text for name, text in files.items()}
    return all(p.is_file() and read_source_text(p) == text for p, text in written.items())


def _format_question(question: DraftQuestion) -> str:
    guess, _, others = question.guess.partition("|")
    kind = f"or {', '.join(others.split('|'))}; " if others else "a guess; " if guess else ""
    return f"{question.key}={guess or '?'}  # {kind}{question.why or 'no line tells it'}"


def _name_answers(
    source: KernelSource, kernel: str | None, questions: Sequence[DraftQuestion]
) -> str:
    """Return the command that answers everything by what is guessed."""
    words = ["kb", "init", _show_path(source)]
    words += ["--kernel", kernel] if kernel else []
    words += (
        ["--name", source.name] if source.name != to_field_name(kernel or source.path.stem) else []
    )
    for each in questions:
        words += ["--set", f"{each.key}={each.guess.partition('|')[0] or '?'}"]
    return shlex.join(words)


def _show_path(source: KernelSource) -> str:
    path = source.path.resolve()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else source.path)


def _name_recording(source: KernelSource, kernel: str | None, *, is_told: bool) -> str:
    """Return the command that has a run say what is open; for a CPU there is none in C++.

    Args:
        source: The kernel's.
        kernel: As it was chosen.
        is_told: Whether launches may tell any of it: they tell no reference.
    """
    if source.analysis.kind == "embedded" or source.analysis.target != "cuda":
        return ""
    if source.analysis.kind == "cuda":
        if not is_told:
            return ""
        chosen = ["--kernel", kernel] if kernel else []
        words = [_show_path(source), *chosen, "--from", "./PROGRAM"]
        return f"kb init {shlex.join(words)}"
    operation = kernel or choose_function(source, None).name
    return f'kb init --from "python PROGRAM" --op {operation}'


def _name_step(name: str, files: Mapping[str, str]) -> str:
    """Return the command that follows: a reference that is the only variant has none to judge.

    A draft of CUDA runs under compute-sanitizer once: a wrong shape reads out of bounds.
    """
    text = files.get("kernel.yaml", "")
    if OWN_REFERENCE in text:
        return f"kb variant add {name} changed --from {DRAFTED_VARIANT}"
    return f"kb bench {name} --sanitize" if "language: cuda" in text else f"kb bench {name}"


def _draft_files(
    source: KernelSource,
    wanted: TargetChoice,
    kernel: str | None,
    answers: Mapping[str, str],
    observed: Observed | None = None,
) -> tuple[DraftedFiles, list[str]]:
    """Return the text of each drafted file by name with what it leaves open, and warnings."""
    path, summary = source.path, source.analysis
    request, warnings = _make_request(source, wanted, kernel, answers)
    request = request._replace(observed=observed or Observed())
    if summary.kind in PYTHON_LANGUAGES:
        drafted = draft_python_files(request)
        warnings = list_missing_imports(path, source.root, request.text)
        return drafted, [*warnings, *drafted.warnings]
    if summary.kind == "embedded":
        return _draft_embedded(request, path)
    request, related = _add_related(request, source)
    warnings += [describe_missing(header, source.root) for header in related.headers]
    is_plain = request.function.style == "pointers"
    told = [name for name in related.missing if is_plain or "::" in name]
    warnings += [f"no file below {source.root} defines {name}" for name in told]
    if is_plain:
        drafted = draft_pointer_files(request)
        return drafted, [*warnings, *drafted.warnings]
    if wanted == "auto" and any(other.endswith(".cu") for other in request.others):
        request = request._replace(target="cuda")
    missing = tuple(name for name in related.missing if name not in told)
    summary = summary._replace(missing_functions=missing)
    tensors = draft_tensor_files(request._replace(summary=summary))
    return tensors, [*warnings, *tensors.warnings]


def _make_request(
    source: KernelSource, wanted: TargetChoice, kernel: str | None, answers: Mapping[str, str]
) -> tuple[DraftRequest, list[str]]:
    """Return what is drafted, with the flags and headers of the project's build, and warnings."""
    path, summary = source.path, source.analysis
    request = DraftRequest(
        name=source.name,
        function=choose_function(source, kernel),
        summary=summary,
        text=read_source_text(path),
        include=source.path_from_folder(path),
        target=_resolve_target(source, wanted),
        answers=answers,
    )
    if summary.kind in PYTHON_LANGUAGES or summary.kind == "embedded":
        return request, []
    includes = plan_includes(path, source.root, list_headers(source.root))
    folders = [f"-I{source.path_from_folder(folder)}" for folder in includes.folders]
    flags = [f for f in includes.flags if request.target == "cuda" and _suits(path, f)]
    before, more = find_headers_before(source)
    headers = read_headers([*includes.headers, *more])
    request = request._replace(flags=(*folders, *flags), headers=headers, before=before)
    request = request._replace(uses_torch=includes_torch((request.text, *headers)))
    if request.function.style != "pointers" or request.uses_torch:  # torch links its own libraries
        kept = tuple(f for f in request.flags if not f.startswith("-l"))
        request = request._replace(flags=kept)
    warnings = []
    if cell := re.match(r"\s*(%%\w+)", request.text):
        warnings = [
            f"{path.name} begins with {cell[1]}, a line of a notebook and no C++: delete it"
        ]
    warnings += [describe_missing(header, source.root) for header in includes.missing]
    warnings += _describe_home(request, includes.headers)
    return request, [*warnings, *includes.notes]


def _describe_home(request: DraftRequest, headers: Sequence[Path]) -> list[str]:
    """Return which header defines a function that its source only includes."""
    name = request.function.name
    if request.function.style != "pointers" or defines_any(request.text, (name,)):
        return []
    home = next((p for p in headers if defines_any(read_source_text(p), (name,))), None)
    return [f"{name} is defined in {home.name}: lines are those of that file"] if home else []


def _add_related(request: DraftRequest, source: KernelSource) -> tuple[DraftRequest, Related]:
    """Return a request with the files that launch the kernel, and that define what it calls.

    And what these files are, and lack.
    """
    path, name = source.path, request.function.name
    callers = read_callers(path, name, request.text) if request.function.is_kernel else ()
    names = list_undefined_functions(request.text, request.headers)
    names = tuple(dict.fromkeys((*source.analysis.missing_functions, *names)))
    related = find_related(path, source.root, names)
    texts = tuple(map(read_source_text, related.files))
    others = tuple(map(source.path_from_folder, related.files))
    folders = (f"-I{source.path_from_folder(folder)}" for folder in related.folders)
    linked = ["-rdc=true"] if needs_relocatable_code(texts, related.names) else []
    flags = tuple(dict.fromkeys((*request.flags, *folders, *linked)))
    request = request._replace(callers=callers, flags=flags)
    return request._replace(others=others, other_texts=texts), related


def _draft_embedded(request: DraftRequest, path: Path) -> tuple[DraftedFiles, list[str]]:
    """Draft for CUDA text in a Python file, of which source.cu becomes a copy."""
    text, copied = request.summary.embedded, f'// Copied by kb init from "{request.include}".\n'
    drafted = draft_pointer_files(request._replace(text=text, include="source.cu"))
    files = {**drafted.files, "source.cu": copied + text}
    return drafted._replace(files=files), describe_copy(path.name, text)


def _suits(path: Path, flag: str) -> bool:
    """Whether the compiler of a file takes a flag: only nvcc takes those with two hyphens."""
    return path.suffix in (".cu", ".cuh") or not flag.startswith("--")


def _resolve_target(source: KernelSource, wanted: TargetChoice) -> Target:
    """Return the wanted target, or the source's own for ``auto``.

    Raises:
        BadValueError: The source cannot run there.
    """
    path, summary, _, _ = source
    if wanted == "auto":
        return summary.target
    language = PYTHON_LANGUAGES.get(summary.kind)
    needs_gpu = path.suffix == ".cu" or summary.kind == "embedded"
    if wanted == "cpu" and (needs_gpu if language is None else "cpu" not in language.targets):
        title = language.title if language else "CUDA"
        raise BadValueError(f"{path} is {title}, which needs a GPU; leave --target cpu out")
    return wanted


def _draft_task_pair(
    source: KernelSource, candidate: str | None, wanted: TargetChoice
) -> tuple[dict[str, str], list[str]]:
    if candidate is None or source.analysis.kind == "candidate":
        raise BadValueError(
            "a KernelBench task needs its candidate too: kb init TASK.py --candidate MINE.py"
        )
    target = validate_machine().target if wanted == "auto" else wanted
    task = make_task_files(source.path, Path(candidate), None, target)
    renamed = re.sub(r"\Aid: .*", f"id: {source.name}", task.files["kernel.yaml"])
    return {**task.files, "kernel.yaml": renamed}, list(task.warnings)


def _refuse_draft(source: KernelSource, drafted: DraftedFiles) -> None:
    """Check that files can be written, and into the folder of this source: existing ones are kept.

    Raises:
        BadValueError: It is no draft, or the folder was made from another source or candidate.
    """
    if drafted.refusal:
        raise BadValueError(drafted.refusal)
    files = drafted.files
    names = [n for n in files if n != "reference.py" and (source.folder / n).is_file()]
    existing = {n: read_source_text(source.folder / n) for n in names}
    if not existing:
        return
    if source.analysis.kind == "kernelbench":
        same = all(existing.get(n) == files[n] for n in ("task.py", "candidate.py"))
    else:
        quoted = f'"{source.path_from_folder(source.path)}"'
        same = any(quoted in text for text in existing.values())
    if not same:
        other = to_field_name(f"{source.path.resolve().parent.name}_{source.path.stem}")
        raise BadValueError(
            f"kernels/{source.name} exists and was not made from the present {source.path}; "
            f"give another name, such as --name {other}, or delete that folder"
        )


def _list_shadow_warnings(source: KernelSource) -> list[str]:
    shipped = Path(shipped_folder("kernels")) / source.name
    if not (shipped / "kernel.yaml").is_file() or shipped.resolve() == source.folder.resolve():
        return []
    return [
        f"kernels/{source.name} hides the kernel {source.name} that ships with KernelKB; "
        f"to use both, delete that folder and give --name"
    ]


def _find_marks(folder: Path) -> Iterator[str]:
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        for number, line in enumerate(read_source_text(path).splitlines(), 1):
            if FILL_IN_MARK in line and not line.lstrip().startswith(("#", "//")):
                yield f"{path.name}:{number}: {line.strip()}"
