"""Reads problems of ComputeEval and their candidates, and builds, runs and tests a candidate.

The problem's commands are the user's; the candidate's code runs inside the programs that they
build, so these run as a candidate does, and their exit status is all that is known of them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from kernelkb.adapters.task_files import read_task_text
from kernelkb.errors import BadValueError
from kernelkb.measure.build.compilers import find_first_error
from kernelkb.measure.machine.host import find_nvcc
from kernelkb.measure.process.compiler_sandbox import sandbox_command
from kernelkb.measure.process.subprocesses import ProcessResult, run_supervised, scratch_folder
from kernelkb.model.kernels.foreign import ComputeEvalProblem, FileSolution, SourceFile
from kernelkb.safety.untrusted_text import parse_json

SPEC_FILE = "problem-spec.yaml"
_PROBLEMS_FILE = "problems.jsonl"
_MAX_SHOWN = 5


def is_compute_eval(task: str) -> bool:
    """Return whether ``--task`` names problems of ComputeEval; ``#ID`` at its end selects one."""
    path = Path(task.partition("#")[0])
    if path.is_dir():
        return (path / SPEC_FILE).is_file()
    if path.name == SPEC_FILE or path.name.endswith((".tar.gz", ".tgz")):
        return True
    if path.suffix not in (".jsonl", ".json"):
        return False
    try:
        with path.open(encoding="utf-8") as lines:
            head = lines.readline() if path.suffix == ".jsonl" else lines.read()
        row = parse_json(head)
    except (OSError, ValueError):
        return False
    return isinstance(row, dict) and {"task_id", "test_command"} <= row.keys()


def read_problem(task: str) -> ComputeEvalProblem:
    """Return the problem that ``--task`` names.

    Raises:
        BadValueError: There is none, there are several, or it is of another format.
    """
    name, _, wanted = task.partition("#")
    path = Path(name)
    if path.is_dir() or path.name == SPEC_FILE:
        return _read_folder(path if path.is_dir() else path.parent)
    rows = list(_read_rows(path))
    found = [row for row in rows if row.get("task_id") == wanted] if wanted else rows
    if len(found) != 1:
        shown = ", ".join(str(row.get("task_id")) for row in rows[:_MAX_SHOWN])
        shown += ", ..." if len(rows) > _MAX_SHOWN else ""
        raise BadValueError(
            f"{name} has {len(rows)} problems ({shown}); name one: --task {path.name}#ID"
        )
    return _validate(found[0], name)


def _validate(row: dict[str, Any], source: str) -> ComputeEvalProblem:
    try:
        problem = ComputeEvalProblem.model_validate(row)
        _require_inside((*problem.context_files, *problem.test_files), source)
        return problem
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "problem"
        raise BadValueError(f"{source} is no problem: {where}: {first['msg']}") from error


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the problems of a JSON file, a JSON Lines file or a release archive."""
    text = _read_archive(path) if path.name.endswith((".tar.gz", ".tgz")) else read_task_text(path)
    rows = [text] if path.suffix == ".json" else [line for line in text.split("\n") if line.strip()]
    for number, row in enumerate(rows, 1):
        try:
            yield parse_json(row, strict=False)
        except ValueError as error:
            raise BadValueError(f"{path}:{number}: no JSON object: {error}") from error


def _read_archive(path: Path) -> str:
    try:
        with tarfile.open(path, "r:gz") as archive:
            member = archive.extractfile(_PROBLEMS_FILE)
            return member.read().decode("utf-8") if member else ""
    except KeyError as error:
        raise BadValueError(f"{path} has no {_PROBLEMS_FILE}, as releases have") from error
    except (OSError, EOFError, tarfile.TarError, zlib.error, UnicodeDecodeError) as error:
        raise BadValueError(f"cannot read {path}: {error}") from error


def _read_folder(folder: Path) -> ComputeEvalProblem:
    """Return the problem of a folder: its description, context/, test/ and solution/."""
    path = folder / SPEC_FILE
    try:
        fields = yaml.safe_load(read_task_text(path))
    except RecursionError as error:
        raise BadValueError(f"{path} is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:  # such as a date that is none
        raise BadValueError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(fields, dict):
        raise BadValueError(f"{path} is no mapping, as descriptions of problems are")
    baseline = _read_tree(folder / "solution")
    row = {
        **fields,
        "context_files": _read_tree(folder / "context"),
        "test_files": _read_tree(folder / "test"),
        "baseline_solution": {"task_id": "baseline", "files": baseline} if baseline else None,
    }
    return _validate(row, str(path))


def _read_tree(folder: Path) -> list[dict[str, str]]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        {"path": path.relative_to(folder).as_posix(), "content": read_task_text(path)}
        for path in paths
    ]


def read_candidate(path: Path, problem: ComputeEvalProblem) -> tuple[SourceFile, ...]:
    """Return the files of a candidate: a JSON solution, a folder, or one source file.

    One source file takes the name that the baseline's has, else ``solution`` with its suffix.

    Raises:
        BadValueError: It cannot be read, solves another problem, or has a file of the test.
    """
    if path.is_dir():
        files = tuple(SourceFile(**row) for row in _read_tree(path))
    elif path.suffix in (".json", ".jsonl"):
        files = _read_solution(path, problem)
    else:
        baseline = problem.baseline_solution.files if problem.baseline_solution else ()
        name = baseline[0].path if len(baseline) == 1 else f"solution{path.suffix}"
        files = (SourceFile(path=name, content=read_task_text(path)),)
    tests = {str(PurePosixPath(file.path)) for file in problem.test_files}
    _require_inside(files, str(path))
    taken = [file.path for file in files if str(PurePosixPath(file.path)) in tests]
    if taken:
        raise BadValueError(f"{path}: {taken[0]} is a file of the problem's test; leave it out")
    if not files:
        raise BadValueError(f"{path} has no file")
    return files


def _require_inside(files: Iterable[SourceFile], source: str) -> None:
    for file in files:
        pure = PurePosixPath(file.path)
        if pure.is_absolute() or ".." in pure.parts:
            raise BadValueError(f"{source}: {file.path} is outside of the problem's folder")


def _read_solution(path: Path, problem: ComputeEvalProblem) -> tuple[SourceFile, ...]:
    for row in _read_rows(path):
        if row.get("task_id") != problem.task_id:
            continue
        try:
            return FileSolution.model_validate(row).files
        except ValidationError as error:
            message = error.errors()[0]["msg"]
            raise BadValueError(
                f"{path}: not a solution of files: {message}; patches are not supported"
            ) from error
    raise BadValueError(f"{path} has no solution of {problem.task_id}")


_SANDBOX_SCRIPT = Path(__file__).parents[1] / "measure" / "process" / "candidate_sandbox.py"
_DEFAULT_TIMEOUT_S = 60.0
_BUILD_TIMEOUT_S = 300.0
_FILE_BYTES = 256 * 2**20
_AF_UNIX = 1
_TIME_LINE = re.compile(r"^COMPUTE_EVAL_TIME_MS:\s*([0-9.eE+-]+)\s*$", re.MULTILINE)
_SHELL_CHARACTERS = re.compile(r"[|&;<>()$`*?\[\]{}~#=\n]")


class Workspace(NamedTuple):
    """A folder with a problem's files and a candidate's, and a folder for logs beside it."""

    folder: Path
    problem: ComputeEvalProblem
    uses_gpu: bool

    def build(self) -> str | None:
        """Run the build command; return the compiler's first error, None where there is none."""
        if self.problem.build_command is None:
            return None
        nvcc = find_nvcc()
        tools = [str(Path(nvcc).parent)] if nvcc else []
        toolkit = [Path(nvcc).resolve().parents[1]] if nvcc else []
        argv = ["/bin/sh", "-c", self.problem.build_command]
        path = os.pathsep.join([*tools, os.environ.get("PATH", "")])
        end = run_supervised(
            sandbox_command(argv, self.folder, toolkit),
            log=self.folder.parent / "build.log",
            timeout_s=_BUILD_TIMEOUT_S,
            env={"TMPDIR": str(self.folder), "PATH": path},
            cwd=self.folder,
        )
        if end.timed_out:
            return f"error: the build took longer than {_BUILD_TIMEOUT_S:.0f} s"
        return find_first_error(end.output) if end.returncode else None

    def run(self, command: str) -> ProcessResult:
        """Run a command in the sandbox of a candidate; a shell only where it needs one."""
        words = shlex.split(command)
        plain = not _SHELL_CHARACTERS.search(command)
        program = self._find_program(words[0]) if words and plain else None
        argv = [program, *words[1:]] if program else ["/bin/sh", "-c", command]
        policy = {
            "families": [] if self.uses_gpu else [_AF_UNIX],
            "folder": str(self.folder),
            "writable": [],
            "fork": program is None,
            "file_bytes": _FILE_BYTES,
        }
        return run_supervised(
            [sys.executable, "-P", str(_SANDBOX_SCRIPT), json.dumps(policy), *argv],
            log=self.folder.parent / "run.log",
            timeout_s=self.problem.timeout_seconds or _DEFAULT_TIMEOUT_S,
            env={"TMPDIR": str(self.folder)},
            cwd=self.folder,
        )

    def _find_program(self, word: str) -> str | None:
        return str(self.folder / word) if "/" in word else shutil.which(word)

    def read_layers(self) -> tuple[str, ...]:
        """Return the sandbox layers of the last run.

        They are written before the candidate's code starts, to a file that it could change.
        """
        try:
            rows = parse_json((self.folder / "layers.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ()
        return tuple(str(row) for row in rows) if isinstance(rows, list) else ()


@contextmanager
def open_workspace(
    problem: ComputeEvalProblem, files: Iterable[SourceFile], *, uses_gpu: bool
) -> Iterator[Workspace]:
    """Write a problem's and a candidate's files to a new folder; it is removed at the end.

    A candidate's file replaces one of the context that has its path.
    """
    with scratch_folder() as parent:
        folder = parent / "problem"
        folder.mkdir()
        for file in (*problem.context_files, *problem.test_files, *files):
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.content, encoding="utf-8")
        yield Workspace(folder, problem, uses_gpu)


def parse_reported_ms(output: str) -> float | None:
    """Return the last milliseconds that a benchmark program reported; None: none above 0."""
    found = _TIME_LINE.findall(output)
    try:
        value = float(found[-1]) if found else 0.0
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None
