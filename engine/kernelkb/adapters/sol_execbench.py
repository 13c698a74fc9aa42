"""What SOL-ExecBench adds to FlashInfer-Bench: computed axes, inputs by code, compiler flags."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelkb.adapters.task_files import make_adapter
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import evaluate_axis_expression, to_snake_case
from kernelkb.model.base import Target
from kernelkb.model.kernels.foreign import BuildSpec, Definition, Workload
from kernelkb.model.kernels.languages import LANGUAGES, LanguageName

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
