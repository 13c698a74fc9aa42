"""Converts a FlashInfer-Bench definition and solution into a kernel folder."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import ValidationError

from kernelkb.errors import BadValueError
from kernelkb.loading.kernel_files import KernelFiles, dump_kernel_yaml, to_slug, to_snake_case
from kernelkb.model.base import Target
from kernelkb.model.foreign import Definition, ForeignRecord, Solution, Tensor, Trace, Workload

F = TypeVar("F", bound=ForeignRecord)

_INTEGER_BOUNDS = {"int64": 128, "int32": 128, "int16": 128, "int8": 128, "uint8": 128, "bool": 2}
"""Exclusive upper bound of random inputs by dtype; int8 cannot hold more than 127."""
_LANGUAGES = {"python": "python", "triton": "triton", "cuda": "cuda", "cpp": "c++"}
_MAX_WORKLOADS = 8
"""Workloads taken from a file; each is checked, which takes seconds."""


def convert_flashinfer(
    definition: Path, solution: Path, workloads: Path | None, target: Target
) -> KernelFiles:
    """Return the files of a kernel folder for one solution of one definition.

    Args:
        definition: A definition's JSON file.
        solution: A solution's JSON file.
        workloads: A JSON Lines file of workloads; by default ``workloads/<op>/<name>.jsonl`` beside
            the data set's ``definitions``.
        target: Where it will run.

    Raises:
        BadValueError: A file has another format, or needs a language or input that is unsupported.
    """
    task = _read_record(definition, Definition)
    candidate = _read_record(solution, Solution)
    if candidate.definition != task.name:
        raise BadValueError(f"{solution} solves {candidate.definition}, not {task.name}")
    rows = _read_workloads(workloads or _find_workload_file(definition, task.name), task)
    axes = {name: to_snake_case(name) for name, axis in task.axes.items() if axis.type == "var"}
    kernel: dict[str, Any] = {
        "id": to_snake_case(task.name),
        "title": (task.description or task.name).split("\n")[0][:200],
        "axes": list(axes.values()),
        "workloads": {
            to_slug(row.uuid or f"w-{at}"): {
                axes[n]: size for n, size in row.axes.items() if n in axes
            }
            for at, row in enumerate(rows)
        },
        "inputs": [_build_input(n, t, task, axes, rows[0]) for n, t in task.inputs.items()],
        "outputs": [_build_array(n, t, task, axes) for n, t in task.outputs.items()],
        "reference": {"file": "reference.py", "function": "run"},
        "entry": candidate.spec.entry_point.partition("::")[2],
    }
    kernel["default_workload"] = {target: next(iter(kernel["workloads"]))}
    kernel["variants"] = [_build_variant(candidate, target)]
    files = {"reference.py": task.reference, **_collect_sources(candidate)}
    return KernelFiles(kernel["id"], {**files, "kernel.yaml": dump_kernel_yaml(kernel)}, ())


def _read_record(path: Path, record: type[F]) -> F:
    try:
        return record.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadValueError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "file"
        name = record.__name__.lower()
        raise BadValueError(f"{path} is not a {name}: {where}: {first['msg']}") from error


def _find_workload_file(definition: Path, name: str) -> Path:
    parts = definition.resolve().parts
    if "definitions" not in parts:
        raise BadValueError(f"{name} needs sizes; name its workload file with --workloads FILE")
    at = len(parts) - 1 - parts[::-1].index("definitions")
    return Path(*parts[:at], "workloads", *parts[at + 1 : -1], f"{name}.jsonl")


def _read_workloads(path: Path, definition: Definition) -> list[Workload]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        cure = "name its workload file with --workloads FILE"
        raise BadValueError(f"cannot read {path}: {error.strerror}; {cure}") from error
    rows: list[Workload] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            trace = Trace.model_validate(json.loads(line))
        except ValueError as error:
            raise BadValueError(f"{path}:{number}: not a workload: {error}") from error
        if trace.definition == definition.name:
            rows.append(trace.workload)
    usable = [r for r in rows if all(i.type != "safetensors" for i in r.inputs.values())]
    if not usable:
        raise BadValueError(
            f"{path} has no workload of {definition.name} with random inputs only; "
            f"inputs from safetensors files are not supported"
        )
    # kernel.yaml holds one value per scalar, so workloads with other values are left out.
    same = [row for row in usable if _select_scalars(row) == _select_scalars(usable[0])]
    return same[:_MAX_WORKLOADS]


def _select_scalars(row: Workload) -> dict[str, Any]:
    return {name: value.value for name, value in row.inputs.items() if value.type == "scalar"}


def _resolve_shape(tensor: Tensor, definition: Definition, axes: dict[str, str]) -> list[str | int]:
    names = tensor.shape or ()
    return [axes[n] if n in axes else definition.axes[n].value or 0 for n in names]


def _build_array(
    name: str, tensor: Tensor, definition: Definition, axes: dict[str, str]
) -> dict[str, Any]:
    return {
        "name": to_snake_case(name),
        "shape": _resolve_shape(tensor, definition, axes),
        "dtype": tensor.dtype,
    }


def _build_input(
    name: str, tensor: Tensor, definition: Definition, axes: dict[str, str], workload: Workload
) -> dict[str, Any]:
    array = _build_array(name, tensor, definition, axes)
    source = workload.inputs.get(name)
    if tensor.shape is None or (source is not None and source.type == "scalar"):
        if source is None or source.value is None:
            raise BadValueError(f"the workload gives no value for the scalar {name}")
        return {**array, "shape": [], "value": source.value + 0}
    if tensor.dtype in _INTEGER_BOUNDS:
        return {**array, "fill": "integers", "scale": float(_INTEGER_BOUNDS[tensor.dtype])}
    return array


def _build_variant(solution: Solution, target: Target) -> dict[str, Any]:
    spec = solution.spec
    language = _LANGUAGES.get(spec.language)
    if language is None:
        raise BadValueError(
            f"{solution.name} is written in {spec.language}, which is not supported"
        )
    entry = spec.entry_point.partition("::")[0]
    names = [_flatten_path(source.path) for source in solution.sources]
    variant = {
        "id": "candidate",
        "target": target,
        "language": language,
        "source": _flatten_path(entry),
        "returns": not spec.destination_passing_style,
        "summary": solution.name,
    }
    if language in ("python", "triton"):
        return variant
    compiled = [
        n for n in names if n.endswith((".cu", ".cpp", ".cc", ".c")) and n != _flatten_path(entry)
    ]
    binding = {"torch": "torch-extension"}.get(spec.binding or "", "tvm-ffi")
    return {**variant, "also": compiled, "binding": binding}


def _flatten_path(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise BadValueError(f"a source's path must be inside the solution's folder: {path}")
    return re.sub(r"[^A-Za-z0-9_.-]", "_", pure.name)


def _collect_sources(solution: Solution) -> dict[str, str]:
    names: Sequence[str] = [_flatten_path(source.path) for source in solution.sources]
    if len(set(names)) < len(names):
        raise BadValueError(
            f"{solution.name} has two files of the same name; a kernel folder has no subfolders"
        )
    return {name: source.content for name, source in zip(names, solution.sources, strict=True)}
