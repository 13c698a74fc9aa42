"""What a task of somebody else's is: its arrays, and whether it asks anything at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kernelkb.measure.worker.judge.inputs import seed_all
from kernelkb.measure.worker.shared.python_files import create_module, import_python_file

Job = dict[str, Any]


def describe_task(job: Job, _folder: Path) -> Job:
    """Run a KernelBench task's model on its own inputs.

    Args:
        job: ``{"file", "entry", "target", "seed"}``.

    Returns:
        ``{"inputs": [...], "outputs": [...], "warnings": [...]}``: arrays as ``{"shape", "dtype"}``
        or ``{"value"}``; warnings say why a right answer would prove little. Or
        ``{"unusable": text}``: it runs, but nothing could be compared with it.
    """
    try:
        return _inspect_task(job)
    except UnusableTaskError as problem:
        return {"unusable": str(problem)}


class UnusableTaskError(Exception):
    """A task that runs and cannot be judged; says what to change in it."""


def _inspect_task(job: Job) -> Job:
    torch.set_grad_enabled(False)
    made = import_python_file(job["file"])
    model = create_module(job["file"], job["entry"], job["file"], job["seed"]).to(job["target"])
    given = _draw_inputs(made, job["target"], 1)
    described = [_describe_value(value) for value in given]
    if not any(isinstance(value, torch.Tensor) for value in given):
        raise UnusableTaskError("get_inputs gives no tensor, so every answer could be kept")
    outputs = _run_model(model, given)
    if not all(map(_is_close, outputs, _run_model(model, given))):
        raise UnusableTaskError(
            "its model answers differently on the same inputs (dropout in train mode, or state "
            "that it keeps between calls); call self.eval() in its __init__, and keep no state"
        )
    return {
        "inputs": described,
        "outputs": [_describe_value(value) for value in outputs],
        "warnings": [
            *_find_trivialities(model, given, _draw_inputs(made, job["target"], 2), outputs),
            *_find_input_mutations(model, given),
        ],
    }


def _draw_inputs(task_module: Any, target: str, seed: int) -> list[Any]:
    seed_all(seed)
    with torch.device(target):
        values = task_module.get_inputs()
    return [v.to(target) if isinstance(v, torch.Tensor) else v for v in values]


def _run_model(model: Any, inputs: list[Any]) -> list[torch.Tensor]:
    result = model(*[v.clone() if isinstance(v, torch.Tensor) else v for v in inputs])
    whole = isinstance(result, tuple | list)
    found = list(result) if whole else [result]
    if not found or not all(isinstance(one, torch.Tensor) for one in found):
        raise UnusableTaskError(
            f"its model returns {_format_types(found)}; return a tensor, or several"
        )
    if any(one.is_complex() for one in found):
        raise UnusableTaskError(
            "its model returns complex numbers; return torch.view_as_real of them"
        )
    return found


def _format_types(values: list[Any]) -> str:
    return ", ".join(dict.fromkeys(type(one).__name__ for one in values)) or "nothing"


def _is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare two answers to one question; sums may come in another order."""
    if not one.is_floating_point():
        return bool(torch.equal(one, other))
    near = float(one.float().nan_to_num(0, 0, 0).abs().mean()) * 1e-2
    return bool(torch.allclose(one.float(), other.float(), rtol=1e-2, atol=near, equal_nan=True))


def _find_input_mutations(model: Any, inputs: list[Any]) -> list[str]:
    mine = [v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]
    model(*mine)
    pairs = [(a, b) for a, b in zip(inputs, mine, strict=True) if isinstance(a, torch.Tensor)]
    if all(torch.equal(a, b) or bool(a.isnan().any()) for a, b in pairs):
        return []
    return ["its model changes its inputs; a candidate must not"]


def _describe_value(value: Any) -> Job:
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, bool | int | float):
        return {"value": value}
    kind = type(value).__name__
    raise UnusableTaskError(f"an input is a {kind}; only tensors and numbers can be passed")


def _find_trivialities(
    model: Any, inputs: list[Any], other_inputs: list[Any], outputs: list[torch.Tensor]
) -> list[str]:
    """Say what a lazy kernel could get away with here."""
    found: list[str] = []
    for at, one in enumerate(outputs):
        if one.is_floating_point() and one.numel() > 1 and float(one.float().std()) == 0.0:
            found.append(f"output {at} is {float(one.reshape(-1)[0]):g} everywhere")
    for at, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor):
            continue
        changed = [*inputs[:at], other_inputs[at], *inputs[at + 1 :]]
        if torch.equal(value, other_inputs[at]):
            found.append(f"input {at} is the same whatever the seed")
        elif all(map(torch.equal, outputs, _run_model(model, changed))):
            found.append(f"input {at} does not matter to the output")
    return found
