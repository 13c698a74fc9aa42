"""Judges functions on the judge's own and on hidden inputs, within this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch

from kernelkb.measure.worker.judge.compare.compare import ReferenceOutputs
from kernelkb.measure.worker.judge.hidden_reference import HiddenReference, UndefinedError
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase
from kernelkb.measure.worker.shared.messages.specs import CaseSpec, Distribution, Reference

DISTRIBUTIONS: tuple[Distribution, ...] = get_args(Distribution)


class Judgement(NamedTuple):
    """Of one function."""

    own: bool
    """Whether it is correct on the inputs as they are drawn."""
    failed: set[str]
    """Distributions on which it is not."""
    left_out: dict[str, str]
    """Distributions for which the reference says nothing, and why."""
    accepted: list[str]
    """Deliberately wrong outputs that the comparison accepts."""


def make_case(
    folder: Path, source: str, shapes: list[list[int]], dtype: str = "float32", scale: float = 1.0
) -> KernelCase:
    """Return a case whose reference is the function ``reference`` of a source."""
    file = folder / "reference.py"
    file.write_text(f"import torch\nimport torch.nn.functional as F\n\n\n{source}")
    reference: Reference = {
        "kind": "python",
        "file": str(file),
        "entry": "reference",
        "inputs": None,
    }
    inputs = [
        {"name": f"x{i}", "shape": shape, "dtype": dtype, "fill": "normal", "scale": scale}
        for i, shape in enumerate(shapes)
    ]
    spec: Any = {"name": "c", "selftest": True, "axis_names": [], "axes": [], "inputs": inputs}
    spec |= {"outputs": [], "distributions": []}
    outputs = _run(spec, reference)
    spec["outputs"] = [
        {
            "name": f"y{i}",
            "shape": list(output.shape),
            "dtype": str(output.dtype).removeprefix("torch."),
            "starts_as": None,
        }
        for i, output in enumerate(outputs)
    ]
    return KernelCase("cpu", reference, spec)


def _run(spec: CaseSpec, reference: Reference) -> list[torch.Tensor]:
    case = KernelCase("cpu", reference, spec)
    return case.run_reference(case.make_inputs(1), None)


def judge(case: KernelCase, function: Callable[..., Any], seed: int = 7) -> Judgement:
    """Judge a function of the case's inputs, which returns a tensor or a tuple of tensors."""

    def call(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        result = function(*[tensor.clone() for tensor in inputs])
        return [result] if isinstance(result, torch.Tensor) else list(result)

    torch.set_grad_enabled(False)
    inputs = case.make_inputs(seed)
    reference = ReferenceOutputs(case, inputs, {})
    own = reference.compare(call(inputs))["correct"]
    failed, left_out = set(), {}
    for distribution in DISTRIBUTIONS:
        try:
            inputs = case.make_inputs(seed + 1, distribution)
            hidden = HiddenReference(case, inputs, distribution, {}, reference.root_mean_squares())
            if not hidden.compare(call(inputs))["correct"]:
                failed.add(distribution)
        except UndefinedError as error:
            left_out[distribution] = str(error)
    torch.set_grad_enabled(True)
    return Judgement(own, failed, left_out, reference.run_selftest()[0])
