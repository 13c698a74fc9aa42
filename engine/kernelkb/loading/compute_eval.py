"""Reads problems of ComputeEval and their candidates: folders, JSON Lines, or release archives."""

from __future__ import annotations

import json
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from pydantic import ValidationError

from kernelkb.errors import BadValueError
from kernelkb.loading.task_text import read_task_text
from kernelkb.model.kernels.foreign import ComputeEvalProblem, FileSolution, SourceFile

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
        row = json.loads(head)
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
            yield json.loads(row, strict=False)
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
    except yaml.YAMLError as error:
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
