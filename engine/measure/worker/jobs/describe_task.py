"""What a task of somebody else's is: its arrays, and whether it asks anything at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kernelkb.measure.worker.judge.inputs import seed_all
from kernelkb.measure.worker.runner.load_candidate import module_of, python_module

Job = dict[str, Any]


def describe(job: Job, _folder: Path) -> Job:
    """Run a KernelBench task's model on its own inputs.

    Args:
        job: ``{"file", "entry", "target", "seed"}``.

    Returns:
        ``{"inputs": [...], "outputs": [...], "warnings": [...]}``: arrays as ``{"shape", "dtype"}``
        or ``{"value"}``; warnings say why a right answer would prove little. Or
        ``{"unusable": text}``: it runs, but nothing could be compared with it.
    """
    try:
        return _seen(job)
    except UnusableError as problem:
        return {"unusable": str(problem)}


class UnusableError(Exception):
    """A task that runs and cannot be judged; says what to change in it."""


def _seen(job: Job) -> Job:
    torch.set_grad_enabled(False)
    made = python_module(job["file"])
    model = module_of(job["file"], job["entry"], job["file"], job["seed"]).to(job["target"])
    given = _inputs(made, job["target"], 1)
    described = [_described(value) for value in given]
    if not any(isinstance(value, torch.Tensor) for value in given):
        raise UnusableError("get_inputs gives no tensor, so every answer could be kept")
    outputs = _run(model, given)
    if not all(map(_alike, outputs, _run(model, given))):
        raise UnusableError(
            "its model answers differently on the same inputs (dropout in train mode, or state "
            "that it keeps between calls); call self.eval() in its __init__, and keep no state"
        )
    return {
        "inputs": described,
        "outputs": [_described(value) for value in outputs],
        "warnings": [
            *_triviality(model, given, _inputs(made, job["target"], 2), outputs),
            *_in_place(model, given),
        ],
    }


def _inputs(made: Any, target: str, seed: int) -> list[Any]:
    seed_all(seed)
    with torch.device(target):
        values = made.get_inputs()
    return [v.to(target) if isinstance(v, torch.Tensor) else v for v in values]


def _run(model: Any, given: list[Any]) -> list[torch.Tensor]:
    result = model(*[v.clone() if isinstance(v, torch.Tensor) else v for v in given])
    whole = isinstance(result, tuple | list)
    found = list(result) if whole else [result]
    if not found or not all(isinstance(one, torch.Tensor) for one in found):
        raise UnusableError(f"its model returns {_kinds(found)}; return a tensor, or several")
    if any(one.is_complex() for one in found):
        raise UnusableError("its model returns complex numbers; return torch.view_as_real of them")
    return found


def _kinds(found: list[Any]) -> str:
    return ", ".join(dict.fromkeys(type(one).__name__ for one in found)) or "nothing"


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare two answers to one question; sums may come in another order."""
    if not one.is_floating_point():
        return bool(torch.equal(one, other))
    near = float(one.float().nan_to_num(0, 0, 0).abs().mean()) * 1e-2
    return bool(torch.allclose(one.float(), other.float(), rtol=1e-2, atol=near, equal_nan=True))


def _in_place(model: Any, given: list[Any]) -> list[str]:
    mine = [v.clone() if isinstance(v, torch.Tensor) else v for v in given]
    model(*mine)
    pairs = [(a, b) for a, b in zip(given, mine, strict=True) if isinstance(a, torch.Tensor)]
    if all(torch.equal(a, b) or bool(a.isnan().any()) for a, b in pairs):
        return []
    return ["its model changes its inputs; a candidate must not"]


def _described(value: Any) -> Job:
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, bool | int | float):
        return {"value": value}
    kind = type(value).__name__
    raise UnusableError(f"an input is a {kind}; only tensors and numbers can be passed")


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
