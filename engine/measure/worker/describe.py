"""What a task of somebody else's is: its arrays, and whether it asks anything at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from engine.measure.worker.callables import module_of, python_module

Job = dict[str, Any]


def describe(job: Job, _folder: Path) -> Job:
    """Run a KernelBench task's model on its own inputs.

    Args:
        job: ``{"file", "entry", "target", "seed"}``.

    Returns:
        ``{"inputs": [...], "outputs": [...], "warnings": [...]}``: arrays as ``{"shape", "dtype"}``
        or ``{"value"}``; warnings say why a right answer would prove little.
    """
    torch.set_grad_enabled(False)
    made = python_module(job["file"])
    model = module_of(job["file"], job["entry"], job["file"], job["seed"]).to(job["target"])
    given = _inputs(made, job["target"], 1)
    outputs = _run(model, given)
    return {
        "inputs": [_described(value) for value in given],
        "outputs": [_described(value) for value in outputs],
        "warnings": _triviality(model, given, _inputs(made, job["target"], 2), outputs),
    }


def _inputs(made: Any, target: str, seed: int) -> list[Any]:
    torch.manual_seed(seed)
    with torch.device(target):
        values = made.get_inputs()
    return [v.to(target) if isinstance(v, torch.Tensor) else v for v in values]


def _run(model: Any, given: list[Any]) -> list[torch.Tensor]:
    result = model(*[v.clone() if isinstance(v, torch.Tensor) else v for v in given])
    found = [result] if isinstance(result, torch.Tensor) else list(result)
    if not all(isinstance(one, torch.Tensor) for one in found):
        raise TypeError("the model returns something other than tensors")
    return found


def _described(value: Any) -> Job:
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, bool | int | float):
        return {"value": value}
    raise TypeError(f"an input is a {type(value).__name__}; only tensors and numbers can be passed")


def _triviality(
    model: Any, given: list[Any], other: list[Any], outputs: list[torch.Tensor]
) -> list[str]:
    """Say what a lazy kernel could get away with here."""
    found: list[str] = []
    for at, one in enumerate(outputs):
        if one.is_floating_point() and one.numel() > 1 and float(one.float().std()) == 0.0:
            found.append(f"output {at} is {float(one.reshape(-1)[0]):g} everywhere")
    for at, value in enumerate(given):
        if not isinstance(value, torch.Tensor):
            continue
        changed = [*given[:at], other[at], *given[at + 1 :]]
        if torch.equal(value, other[at]):
            found.append(f"input {at} is the same whatever the seed")
        elif all(map(torch.equal, outputs, _run(model, changed))):
            found.append(f"input {at} does not matter to the output")
    return found
