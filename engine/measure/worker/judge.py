"""Compare raw outputs with the reference. The candidate's code never runs in this process."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from engine.measure.worker import data

Job = dict[str, Any]
Outputs = tuple[torch.Tensor, ...]


def reference_function(path: str, name: str) -> Callable[..., Any]:
    """Load the torch function that says what is right."""
    spec = importlib.util.spec_from_file_location("kernel_reference", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, name)
    return function


def judge(job: Job, folder: Path) -> Job:
    """Judge every case: ``{"cases": [...], "accepted": [...], "refused": [...]}``.

    ``accepted`` and ``refused`` are wrong outputs that the same comparison was shown first: a
    tolerance that accepts any of them decides nothing.
    """
    function = reference_function(job["reference"]["file"], job["reference"]["function"])
    cases: list[Job] = []
    accepted: set[str] = set()
    refused: set[str] = set()
    for at, case in enumerate(job["cases"]):
        given = data.inputs(case["inputs"], case["seed"], job["target"])
        want = _outputs(function(*(tensor.double() for tensor in given)))
        near = _outputs(function(*given))
        verdicts: list[Job] = []
        for position, spec in enumerate(case["outputs"]):
            got = data.read(folder / f"out-{at}-{position}.bin", spec).to(want[position].device)
            tolerance = job["tolerances"][spec["dtype"]]
            verdicts.append(_compare(got, want[position], near[position], tolerance))
            if case["selftest"]:
                for name, wrong in _wrong(want[position], given):
                    fooled = _compare(wrong, want[position], near[position], tolerance)["correct"]
                    (accepted if fooled else refused).add(name)
        cases.append(min(verdicts, key=lambda v: (v["correct"], v["matched_ratio"])))
    return {"cases": cases, "accepted": sorted(accepted), "refused": sorted(refused - accepted)}


def _outputs(value: Any) -> Outputs:
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)


def _compare(
    got: torch.Tensor, want: torch.Tensor, near: torch.Tensor, tolerance: dict[str, float]
) -> Job:
    error = (got.double() - want).abs()
    bad = torch.isnan(got) & ~torch.isnan(want)
    nan_count = int(bad.sum())
    matched = error <= tolerance["atol"] + tolerance["rtol"] * want.abs()
    ratio = float(matched.double().mean())
    worst = None if nan_count else float(error.max())
    within = worst is not None and worst <= tolerance["max_error"]
    return {
        "correct": within and ratio >= tolerance["matched_ratio"],
        "max_abs_error": worst,
        "matched_ratio": ratio,
        "nan_count": nan_count,
        "reference_error": float((near.double() - want).abs().max()),
    }


def _wrong(want: torch.Tensor, given: Sequence[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    """Return outputs that no right kernel gives, and lazy kernels have been seen to give."""
    flat = want.reshape(-1)
    wrong = [
        ("all zeros", torch.zeros_like(want)),
        ("all ones", torch.ones_like(want)),
        ("the mean everywhere", want.mean().expand_as(want)),
        ("the right values one place on", flat.roll(1).reshape(want.shape)),
    ]
    wrong += [("a copy of an input", g.double()) for g in given if g.shape == want.shape]
    return [(name, tensor) for name, tensor in wrong if not torch.equal(tensor, want)]
