"""Converts a definition and solution of FlashInfer-Bench or SOL-ExecBench into a kernel folder.

What SOL-ExecBench adds: computed axes, inputs by code, compiler flags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import ValidationError

from kernelkb.adapters.task_files import make_adapter
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import (
    KernelFiles,
    dump_kernel_yaml,
    to_slug,
    to_snake_case,
)
from kernelkb.model.base import Target
from kernelkb.model.kernels.foreign import (
    BuildSpec,
    Definition,
    ForeignRecord,
    Solution,
    Tensor,
    Trace,
    Workload,
)
from kernelkb.model.kernels.kernel import DTYPE_BYTES, evaluate_axis_expression
from kernelkb.model.kernels.languages import LANGUAGES, LanguageName
from kernelkb.safety.untrusted_text import parse_json

F = TypeVar("F", bound=ForeignRecord)
_INTEGER_BOUNDS = {"int64": 128, "int32": 128, "int16": 128, "int8": 128, "uint8": 128, "bool": 2}
"""Exclusive upper bound of random inputs by dtype; int8 cannot hold more than 127."""
_OWN_FILES = ("reference.py", "with_inputs.py", "kernel.yaml")
"""Written by the conversion; a solution with such a file would replace what it is judged by."""
_TOLERANCE_NOTE = (
    "the workloads' own tolerances are not used: the limit follows from the reference's own error"
)
_MAX_WORKLOADS = 8
"""Workloads taken from a file; each is checked, which takes seconds."""
DEFINITION_FILE = "definition.json"
WORKLOAD_FILE = "workload.jsonl"
_LANGUAGES: dict[str, LanguageName] = {
    **dict.fromkeys(("python", "pytorch", "cute_dsl", "cutile", "cudnn_frontend"), "python"),
    "triton": "triton",
    **dict.fromkeys(("cuda", "cuda_cpp", "cutlass", "cudnn", "cublas"), "cuda"),
    "cpp": "c++",
}
_INPUTS = """\
import torch

_reference = _load("reference")
run = _reference.run


def make_inputs(**sizes):
    axes = {constants!r} | {{name: sizes[ours] for name, ours in {names!r}.items()}}
    device = torch.device({target!r})
    made = _reference.{entry}(axes | {scalars!r}, device)
    return [
        made[name] if name in made else _draw([axes[n] for n in shape], dtype, device)
        for name, shape, dtype in {arrays!r}
    ]


def _draw(shape, dtype, device):
    kind = getattr(torch, dtype)
    if kind.is_floating_point:
        return torch.randn(shape, device=device).to(kind)
    return torch.randint(0, {bounds!r}[dtype], shape, device=device).to(kind)
"""


def convert_flashinfer(
    definition: Path, solution: Path, workloads: Path | None, target: Target
) -> KernelFiles:
    """Return the files of a kernel folder for one solution of one definition.

    Args:
        definition: A definition's JSON file.
        solution: A solution's JSON file.
        workloads: A JSON Lines file of workloads; by default ``workload.jsonl`` beside the
            definition, or ``workloads/<op>/<name>.jsonl`` beside the data set's ``definitions``.
        target: Where it will run.

    Raises:
        BadValueError: A file has another format, or needs a language or input that is unsupported.
    """
    task = _read_record(definition, Definition)
    candidate = _read_record(solution, Solution)
    if candidate.definition != task.name:
        raise BadValueError(f"{solution} solves {candidate.definition}, not {task.name}")
    rows = _read_workloads(workloads or _find_workload_file(definition, task.name), task)
    constants = resolve_constants(task)
    axes = {name: to_snake_case(name) for name in task.axes if name not in constants}
    kernel: dict[str, Any] = {
        "id": to_snake_case(task.name),
        "title": (task.description or task.name).split("\n")[0][:200],
        "axes": list(axes.values()),
        "workloads": _name_workloads(task, rows, axes),
        "inputs": [_build_input(n, t, task, axes, rows[0]) for n, t in task.inputs.items()],
        "outputs": [_build_array(n, t, task, axes) for n, t in task.outputs.items()],
        "reference": {"file": "reference.py", "function": "run"},
        "entry": candidate.spec.entry_point.partition("::")[2],
    }
    kernel["default_workload"] = {target: next(iter(kernel["workloads"]))}
    kernel["variants"] = [_build_variant(candidate, target)]
    files = {"reference.py": task.reference, **_collect_sources(candidate)}
    if _makes_inputs(task, rows[0]):
        kernel["reference"] |= {"file": "with_inputs.py", "inputs": "make_inputs"}
        files["with_inputs.py"] = make_input_adapter(task, rows[0], _INTEGER_BOUNDS, target)
    warnings = (_TOLERANCE_NOTE,) if any(row.tolerance for row in rows) else ()
    return KernelFiles(kernel["id"], {**files, "kernel.yaml": dump_kernel_yaml(kernel)}, warnings)


def _name_workloads(
    task: Definition, rows: Sequence[Workload], axes: dict[str, str]
) -> dict[str, dict[str, int]]:
    """Return the sizes of the axes that vary, by the workload's name."""
    return {
        to_slug(row.uuid or f"w-{at}"): {
            axes[name]: size for name, size in resolve_axes(task, row).items() if name in axes
        }
        for at, row in enumerate(rows)
    }


def _makes_inputs(task: Definition, workload: Workload) -> bool:
    """Return whether the reference makes inputs itself.

    Raises:
        BadValueError: It should, and names no function that does.
    """
    if all(value.type != "custom" for value in workload.inputs.values()):
        return False
    if task.custom_inputs_entrypoint is None:
        raise BadValueError(f"{task.name} names no custom_inputs_entrypoint, which inputs need")
    return True


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
    if (definition.parent / WORKLOAD_FILE).is_file():
        return definition.parent / WORKLOAD_FILE
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
    except UnicodeDecodeError as error:
        raise BadValueError(f"{path} is no text: {error}") from error
    rows: list[Workload] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            trace = Trace.model_validate(parse_json(line))
        except ValueError as error:
            raise BadValueError(f"{path}:{number}: not a workload: {error}") from error
        if trace.definition in (None, definition.name):
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
    constants = resolve_constants(definition)
    unknown = [n for n in names if n not in axes and n not in constants]
    if unknown:
        raise BadValueError(f"{definition.name}: a shape names {unknown[0]}, which is no axis")
    return [axes.get(n) or constants[n] for n in names]


def _build_array(
    name: str, tensor: Tensor, definition: Definition, axes: dict[str, str]
) -> dict[str, Any]:
    if tensor.dtype not in DTYPE_BYTES:
        raise BadValueError(f"{definition.name}: {name} is {tensor.dtype}, which is not supported")
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
    language = select_language(spec, solution.name)
    if LANGUAGES[language].targets == ("cuda",) and target == "cpu":
        raise BadValueError(f"{solution.name} is written in {language}, which needs a GPU")
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
    if not LANGUAGES[language].is_compiled:
        return variant
    compiled = [
        n for n in names if n.endswith((".cu", ".cpp", ".cc", ".c")) and n != _flatten_path(entry)
    ]
    default = "torch" if spec.languages else "tvm-ffi"  # of SOL-ExecBench and FlashInfer-Bench
    binding = "torch-extension" if (spec.binding or default) == "torch" else "tvm-ffi"
    return {**variant, "also": compiled, "binding": binding, "flags": list_flags(spec)}


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
    taken = [name for name in names if name in _OWN_FILES]
    if taken:
        raise BadValueError(
            f"{solution.name} has a file {taken[0]}, which kb writes itself; name it otherwise"
        )
    return {name: source.content for name, source in zip(names, solution.sources, strict=True)}


# What SOL-ExecBench adds.


def find_definition(task: Path) -> Path:
    """Return the definition's file of a task: the file itself, or the one in its folder.

    Raises:
        BadValueError: The folder has none.
    """
    if not task.is_dir():
        return task
    if not (task / DEFINITION_FILE).is_file():
        raise BadValueError(
            f"{task} is no task: it has neither {DEFINITION_FILE} (SOL-ExecBench), "
            f"func_forward.py (robust-kbench) nor problem-spec.yaml (ComputeEval)"
        )
    return task / DEFINITION_FILE


def select_language(spec: BuildSpec, solution: str) -> LanguageName:
    """Return the language of a solution's variant, as kernel.yaml names it.

    Raises:
        BadValueError: It is not supported, or there are two that exclude each other.
    """
    given = spec.languages or (spec.language,)
    unknown = [name for name in given if name not in _LANGUAGES]
    if unknown:
        raise BadValueError(f"{solution} is written in {unknown[0]}, which is not supported")
    found = {_LANGUAGES[name] for name in given}
    if len(found) == 2 and not any(LANGUAGES[name].is_compiled for name in found):
        found.discard("python")  # which only calls the other one's kernels
    if len(found) > 1:
        raise BadValueError(f"{solution} mixes {' and '.join(given)}; name one kind of language")
    return found.pop()


def list_flags(spec: BuildSpec) -> list[str]:
    """Return the compiler's and the linker's flags; a standard is kb's own, and so is ``-lcuda``.

    All go to nvcc; those of the host compiler only are left out.
    """
    options = spec.compile_options
    if options is None:
        return []
    flags = [flag for flag in options.cuda_cflags if not flag.startswith(("-std", "--std", "-O"))]
    return [*flags, *(flag for flag in options.ld_flags if flag.startswith("-l"))]


def resolve_constants(definition: Definition) -> dict[str, int]:
    """Return the size of every axis that is the same in all workloads."""
    sizes = {
        name: axis.value or 0 for name, axis in definition.axes.items() if axis.type == "const"
    }
    return sizes | _evaluate(definition, sizes)


def resolve_axes(definition: Definition, workload: Workload) -> dict[str, int]:
    """Return the size of every axis in a workload.

    Raises:
        BadValueError: An axis has none, or an expression is not arithmetic of axes.
    """
    constants = resolve_constants(definition)
    sizes = {**constants, **workload.axes}
    sizes |= _evaluate(definition, sizes)
    missing = [name for name in definition.axes if name not in sizes]
    if missing:
        raise BadValueError(f"workload {workload.uuid} gives no size to the axis {missing[0]}")
    return sizes


def _evaluate(definition: Definition, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the axes that are expressions of known ones; one may follow from another."""
    known = dict(sizes)
    for _ in definition.axes:
        for name, axis in definition.axes.items():
            if axis.type != "expr" or name in known:
                continue
            try:
                known[name] = int(evaluate_axis_expression(axis.expression or "", known))
            except ValueError as error:
                if len(known) == len(definition.axes) - 1:
                    raise BadValueError(f"axis {name}: {error}") from error
    return {name: size for name, size in known.items() if name not in sizes}


def make_input_adapter(
    definition: Definition, workload: Workload, bounds: Mapping[str, int], target: Target
) -> str:
    """Return a module with ``run`` of the reference and ``make_inputs`` of its own inputs."""
    constants = resolve_constants(definition)
    scalars: dict[str, Any] = {
        name: value.value for name, value in workload.inputs.items() if value.type == "scalar"
    }
    arrays = [
        (name, list(tensor.shape), tensor.dtype)
        for name, tensor in definition.inputs.items()
        if tensor.shape is not None and name not in scalars
    ]
    body = _INPUTS.format(
        constants=constants,
        names={n: to_snake_case(n) for n in definition.axes if n not in constants},
        scalars=scalars,
        arrays=arrays,
        bounds=dict(bounds),
        entry=definition.custom_inputs_entrypoint,
        target=target,
    )
    return make_adapter("A reference with the inputs that it makes itself.", body)
