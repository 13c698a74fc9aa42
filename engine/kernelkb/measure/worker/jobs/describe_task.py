"""Inspects a KernelBench task: shapes, dtypes, and inputs that do not affect the output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kernelkb.measure.worker.judge.inputs.references import draw_seeded
from kernelkb.measure.worker.shared.messages.jobs import (
    ArrayDescription,
    CaseDescription,
    DescribeJob,
    DescribeResult,
    ScalarDescription,
    TaskDescription,
)
from kernelkb.measure.worker.shared.messages.specs import Target
from kernelkb.measure.worker.shared.python_files import create_task_model, import_python_file

_REPEAT_TOLERANCE = 1e-2
"""Relative difference allowed between two runs of a model: sums may be taken in another order."""


class UnusableTaskError(Exception):
    """No candidate can be compared with a task that runs; the text ends with the cure."""


def describe_task(job: DescribeJob, _folder: Path) -> DescribeResult:
    """Run a task's model on its own inputs and describe both."""
    try:
        return {"description": _inspect_task(job)}
    except UnusableTaskError as error:
        return {"unusable_reason": str(error)}


def _inspect_task(job: DescribeJob) -> TaskDescription:
    torch.set_grad_enabled(False)
    task = import_python_file(job["file"])
    model = create_task_model(job["file"], job["entry"], job["seed"]).to(job["target"])
    inputs = _draw_inputs(task, job["target"], 1)
    descriptions = [_describe_value(value) for value in inputs]
    if not any(isinstance(value, torch.Tensor) for value in inputs):
        raise UnusableTaskError(
            "get_inputs returns no tensor, so its output never changes; return a tensor that "
            "differs between seeds"
        )
    outputs = _run_model(model, inputs)
    if not all(map(_is_close, outputs, _run_model(model, inputs))):
        raise UnusableTaskError(
            "its model answers differently on the same inputs (dropout in train mode, or state "
            "that it keeps between calls); call self.eval() in its __init__, and keep no state"
        )
    return {
        "inputs": descriptions,
        "outputs": [_describe_value(value) for value in outputs],
        "others": _describe_others(model, job),
        "warnings": [
            *_find_trivialities(model, inputs, _draw_inputs(task, job["target"], 2), outputs),
            *_find_input_mutations(model, inputs),
        ],
    }


def _describe_others(model: Any, job: DescribeJob) -> list[CaseDescription | str]:
    """Describe the further cases, one after another, so that memory holds one at a time."""
    if job["others"] is None:
        return []
    make_cases = import_python_file(job["others"]).get_all_inputs
    with torch.device(job["target"]):
        cases = draw_seeded(1, lambda: list(make_cases()))
        return [_describe_other(model, job["target"], values) for values in cases]


def _describe_other(model: Any, target: Target, values: Any) -> CaseDescription | str:
    """Describe a case, or return why nothing can be learnt from it."""
    try:
        inputs = [v.to(target) if isinstance(v, torch.Tensor) else v for v in values]
        descriptions = [_describe_value(value) for value in inputs]
        outputs = _run_model(model, inputs)
    except Exception as error:  # code of the task's files: any exception is a reason
        return f"{type(error).__name__}: {error}"
    if not all(bool(output.isfinite().all()) for output in outputs):
        return "the task's own model answers NaN or infinity there"
    return {"inputs": descriptions, "outputs": [_describe_value(value) for value in outputs]}


def _draw_inputs(task_module: Any, target: Target, seed: int) -> list[Any]:
    with torch.device(target):
        values = draw_seeded(seed, task_module.get_inputs)
    return [v.to(target) if isinstance(v, torch.Tensor) else v for v in values]


def _run_model(model: Any, inputs: list[Any]) -> list[torch.Tensor]:
    """Return the outputs of a model for copies of its inputs.

    Raises:
        UnusableTaskError: They are no tensors, or complex.
    """
    result = model(*[v.clone() if isinstance(v, torch.Tensor) else v for v in inputs])
    outputs = list(result) if isinstance(result, tuple | list) else [result]
    if not outputs or not all(isinstance(output, torch.Tensor) for output in outputs):
        raise UnusableTaskError(
            f"its model returns {_format_types(outputs)}; return a tensor, or several"
        )
    if any(output.is_complex() for output in outputs):
        raise UnusableTaskError(
            "its model returns complex numbers; return torch.view_as_real of them"
        )
    return outputs


def _format_types(values: list[Any]) -> str:
    return ", ".join(dict.fromkeys(type(value).__name__ for value in values)) or "nothing"


def _is_close(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Compare two outputs for the same inputs, of the same shape and dtype."""
    if not left.is_floating_point():
        return bool(torch.equal(left, right))
    rtol = _REPEAT_TOLERANCE
    atol = float(left.float().nan_to_num(0, 0, 0).abs().mean()) * rtol
    return bool(torch.allclose(left.float(), right.float(), rtol=rtol, atol=atol, equal_nan=True))


def _find_input_mutations(model: Any, inputs: list[Any]) -> list[str]:
    copies = [v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]
    model(*copies)
    pairs = [(a, b) for a, b in zip(inputs, copies, strict=True) if isinstance(a, torch.Tensor)]
    if all(torch.equal(a, b) or bool(a.isnan().any()) for a, b in pairs):
        return []
    return ["its model changes its inputs; a candidate must not"]


def _describe_value(value: Any) -> ArrayDescription | ScalarDescription:
    """Describe an input or output.

    Raises:
        UnusableTaskError: It is neither a tensor nor a number.
    """
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, bool | int | float):
        return {"value": value}
    kind = type(value).__name__
    raise UnusableTaskError(f"an input is a {kind}; only tensors and numbers can be passed")


def _find_trivialities(
    model: Any, inputs: list[Any], other_inputs: list[Any], outputs: list[torch.Tensor]
) -> list[str]:
    """List what allows an incorrect kernel to pass: constant outputs, inputs without effect."""
    warnings: list[str] = []
    for index, output in enumerate(outputs):
        if output.is_floating_point() and output.numel() > 1 and float(output.float().std()) == 0.0:
            warnings.append(f"output {index} is {float(output.reshape(-1)[0]):g} everywhere")
    for index, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor):
            continue
        changed = [*inputs[:index], other_inputs[index], *inputs[index + 1 :]]
        if torch.equal(value, other_inputs[index]):
            warnings.append(f"input {index} is the same for every seed")
        elif all(map(torch.equal, outputs, _run_model(model, changed))):
            warnings.append(f"input {index} does not matter to the output")
    return warnings
