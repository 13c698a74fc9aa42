"""Compares a mutant with the kernel that it was made of, independently of the judge's limits.

Both are called on the same inputs: ordinary ones, and those on which kernels differ that otherwise
agree (ties, NaN, infinities, very large and very small values, zeros), for many sizes. Inputs on
which the original itself differs from the reference are outside of what the kernel is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypedDict

import torch

from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, Tensors
from kernelkb.measure.worker.runner.load_candidate import load_code
from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    Code,
    FunctionReference,
    ModuleReference,
    Target,
)
from kernelkb.measure.worker.shared.python_files import import_python_file

_GUARD_ELEMENTS = 256
_GARBAGE = 77
_ERROR_FACTOR = 8.0
"""How many times the original's own error a mutant may be off by rounding."""
_ULPS = 64.0
_TERM_ULPS = 8.0
"""Ulps of the outputs' root mean square: sums of terms that cancel are rounded where terms are."""
_SEEDS = 3
"""Draws of each distribution for the kernel's own workloads; one for other sizes."""


class Comparison(TypedDict):
    """What to compare."""

    target: Target
    reference: FunctionReference | ModuleReference
    cases: list[CaseSpec]
    own_cases: int
    """How many of them, from the first, are the kernel's own workloads."""
    original: Code
    mutant: Code


class Answer(TypedDict):
    """What was found."""

    calls: int
    """Inputs on which both were called and compared."""
    rounded: int
    """Of these, with other bits within rounding."""
    differs: str | None
    """The first input on which they differ by more: distribution and sizes."""
    distributions: list[str]
    """All distributions on which they differ."""


Distribution = Callable[[torch.Tensor], torch.Tensor]
SameChoice = Callable[[Tensors, Tensors, Tensors], bool]
"""Takes inputs and two answers; says whether they chose equal values, by whichever index."""


def _sprinkle(value: float) -> Distribution:
    def change(x: torch.Tensor) -> torch.Tensor:
        mask = torch.rand(x.shape, device=x.device) < 0.1
        return torch.where(mask, torch.full_like(x, value), x)

    return change


_DISTRIBUTIONS: dict[str, Distribution] = {
    "ordinary": lambda x: x,
    "times 3": lambda x: 3 * x,
    "times 0.01": lambda x: 0.01 * x,
    "times 100": lambda x: 100 * x,
    "times 1e-6": lambda x: 1e-6 * x,
    "times 1e-15": lambda x: 1e-15 * x,
    "times 1e6": lambda x: 1e6 * x,
    "positive": lambda x: x.abs(),
    "negative": lambda x: -x.abs(),
    "ties": lambda x: x.round(),
    "all equal": lambda x: torch.full_like(x, 1.5),
    "ones": torch.ones_like,
    "minus ones": lambda x: -torch.ones_like(x),
    "zeros": torch.zeros_like,
    "shifted": lambda x: x + 50,
    "sparse": lambda x: torch.where(torch.rand(x.shape, device=x.device) < 0.9, 0.0, x),
    "a few large": lambda x: torch.where(torch.rand(x.shape, device=x.device) < 0.05, 1e4 * x, x),
    "some infinite": _sprinkle(float("inf")),
    "some minus infinite": _sprinkle(-float("inf")),
    "some NaN": _sprinkle(float("nan")),
}


def compare_directly(job: Comparison) -> Answer:
    """Call original and mutant on a few thousand inputs; stop after some that differ."""
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    binders = [load_code(code, job["target"]) for code in (job["original"], job["mutant"])]
    module = import_python_file(job["reference"]["file"])
    same_choice = getattr(module, "same_choice", None)
    answer: Answer = {"calls": 0, "rounded": 0, "differs": None, "distributions": []}
    for index, spec in enumerate(job["cases"]):
        case = KernelCase(job["target"], job["reference"], spec)
        if not _fits_reference(case):
            continue
        seeds = _SEEDS if index < job["own_cases"] else 1
        for name, inputs in _draw_inputs(case, seeds):
            word = _compare_once(case, inputs, binders, same_choice)
            answer["calls"] += word != "outside"
            answer["rounded"] += word == "rounded"
            if word == "different":
                answer["differs"] = answer["differs"] or f"{name}, {spec['name']}"
                if name not in answer["distributions"]:
                    answer["distributions"].append(name)
                if name == "ordinary":
                    return answer
    return answer


def _compare_once(
    case: KernelCase, inputs: Tensors, binders: Sequence[Any], same_choice: SameChoice | None
) -> str:
    """Return ``equal``, ``rounded``, ``different``; ``outside`` where the original is not right."""
    arrays = [_surround(tensor)[1] for tensor in inputs]
    original, mutant = (_call(binder, arrays, case) for binder in binders)
    if original is None:
        return "outside"
    if mutant is not None and all(map(_same_values, original, mutant)):
        return "equal"
    oracle = case.run_reference(inputs, torch.float64)
    if not _is_right(original, oracle):
        return "outside"
    return _judge(original, mutant, oracle, inputs, same_choice)


def _draw_inputs(case: KernelCase, seeds: int) -> Iterator[tuple[str, Tensors]]:
    for seed in range(seeds):
        drawn = case.make_inputs(seed)
        for name, change in _DISTRIBUTIONS.items():
            yield (
                name,
                [
                    change(tensor).contiguous()
                    if one["fill"] == "normal" and tensor.is_floating_point()
                    else tensor
                    for one, tensor in zip(case.input_specs, drawn, strict=True)
                ],
            )


def _fits_reference(case: KernelCase) -> bool:
    """Return whether the reference accepts these sizes, with outputs of the right shapes."""
    try:
        outputs = case.run_reference(case.make_inputs(0), None)
    except (RuntimeError, IndexError):
        return False
    return [list(output.shape) for output in outputs] == [one["shape"] for one in case.output_specs]


def _call(binder: Any, arrays: Tensors, case: KernelCase) -> Tensors | None:
    """Return outputs, and the memory around them; None where the code reports an error."""
    outputs = [
        _surround(
            torch.full(
                tuple(spec["shape"]),
                _GARBAGE,
                dtype=getattr(torch, spec["dtype"]),
                device=case.device,
            )
        )
        for spec in case.output_specs
    ]
    try:
        result = binder(arrays, [view for _, view in outputs], case.case_spec["axes"])(0)
    except Exception:  # any that the mutant raises
        return None
    if case.target == "cuda":
        torch.cuda.synchronize()
    if isinstance(result, int):
        guards = [whole.clone() for whole, _ in outputs] if result == 0 else None
        return guards and [*(view.clone() for _, view in outputs), *guards]
    returned = [result] if isinstance(result, torch.Tensor) else list(result)
    fits = len(returned) == len(outputs) and all(
        one.shape == view.shape and one.dtype == view.dtype
        for one, (_, view) in zip(returned, outputs, strict=True)
    )
    return [one.clone() for one in returned] if fits else None


def _surround(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Copy a tensor between two guard regions; return the whole and the copy."""
    count = tensor.numel()
    whole = torch.full((count + 2 * _GUARD_ELEMENTS,), _GARBAGE, dtype=tensor.dtype).to(
        tensor.device
    )
    view = whole[_GUARD_ELEMENTS : _GUARD_ELEMENTS + count].view(tensor.shape)
    view.copy_(tensor)
    return whole, view


def _is_right(outputs: Tensors, oracle: Tensors) -> bool:
    """Return whether the original agrees with the reference about NaN and infinity, roughly."""
    for output, want in zip(outputs, oracle, strict=False):
        if output.is_floating_point():
            narrow = want.to(output.dtype)
            if not torch.equal(output.isnan(), narrow.isnan()):
                return False
            if not torch.equal(output.isinf(), narrow.isinf()):
                return False
    return True


def _judge(
    original: Tensors,
    mutant: Tensors | None,
    oracle: Tensors,
    inputs: Tensors,
    same_choice: SameChoice | None,
) -> str:
    """Return ``equal``, ``rounded`` or ``different``."""
    if mutant is None or len(mutant) != len(original):
        return "different"
    count = len(oracle)
    if same_choice is not None and same_choice(inputs, original[:count], mutant[:count]):
        return "equal"
    words = [
        _is_rounding(left, right, want)
        for left, right, want in zip(original, mutant, oracle, strict=False)
    ]
    guards = [_edges(tensor) for tensor in original[count:]], [_edges(t) for t in mutant[count:]]
    is_kept = all(map(_same_values, *guards))
    return "rounded" if all(words) and is_kept else "different"


def _edges(whole: torch.Tensor) -> torch.Tensor:
    return torch.cat((whole[:_GUARD_ELEMENTS], whole[-_GUARD_ELEMENTS:]))


def _same_values(left: torch.Tensor, right: torch.Tensor) -> bool:
    return bool(((left == right) | ((left != left) & (right != right))).all())


def _is_rounding(original: torch.Tensor, mutant: torch.Tensor, oracle: torch.Tensor) -> bool:
    """Return whether a mutant is as near to the reference as the original, within some ulps."""
    if not original.is_floating_point():
        return bool(torch.equal(original, mutant))
    if not torch.equal(original.isfinite(), mutant.isfinite()):
        return False
    finite = original.isfinite() & oracle.isfinite()
    if not _same_values(original[~finite], mutant[~finite]):
        return False
    want = oracle[finite]
    own = (original[finite].double() - want).abs()
    error = (mutant[finite].double() - want).abs()
    allowed = _ERROR_FACTOR * own.max() if own.numel() else 0.0
    ulp = torch.finfo(original.dtype).eps
    typical = float(want.double().square().mean().sqrt()) if want.numel() else 0.0
    allowed = allowed + _ULPS * ulp * want.abs() + _TERM_ULPS * ulp * typical
    allowed = allowed + torch.finfo(original.dtype).tiny
    return bool((error <= allowed).all())
