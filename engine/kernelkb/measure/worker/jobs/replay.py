"""Calls a function on recorded inputs: whether a copy of it computes what the program did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kernelkb.measure.worker.shared.messages.other_jobs import ReplayJob, ReplayResult
from kernelkb.measure.worker.shared.messages.specs import Scalar
from kernelkb.measure.worker.shared.python_files import import_python_file
from kernelkb.measure.worker.shared.tensor_files import read_tensors

_ULPS = 64.0
"""By which a repeated call may be off: threads sum in another order."""
_MIN_RELATIVE = 1e-5


def replay(job: ReplayJob, _folder: Path) -> ReplayResult:
    """Call the function once for each recorded file."""
    # What torch.empty returns is NaN then: code that leaves some of it as it is differs.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        function = getattr(import_python_file(job["file"]), job["entry"])
    except Exception as error:  # of the user's code, of any kind
        text = f"it cannot be imported: {type(error).__name__}: {error}"
        return {"faults": [text[:300]] * len(job["values"])}
    rows = zip(job["values"], job["numbers"], strict=True)
    return {"faults": [_find_fault(function, job, file, numbers) for file, numbers in rows]}


def _find_fault(function: Any, job: ReplayJob, file: str, numbers: list[Scalar]) -> str:
    arrays = read_tensors(Path(file))
    inputs = [arrays[f"input.{at}"].to(job["target"]) for at in job["inputs"]]
    expected = [arrays[name] for name in _sort(arrays, "output.")]
    try:
        with torch.no_grad():
            result = function(*inputs, *numbers)
    except Exception as error:  # of the user's code, of any kind
        return f"it raises {type(error).__name__}: {error}"[:300]
    outputs = [result] if isinstance(result, torch.Tensor) else list(result)
    if len(outputs) != len(expected):
        return f"it returns {len(outputs)} tensors, and {len(expected)} were recorded"
    faults = (
        _compare(own.detach().cpu(), right) for own, right in zip(outputs, expected, strict=True)
    )
    return next((fault for fault in faults if fault), "")


def _sort(arrays: dict[str, torch.Tensor], prefix: str) -> list[str]:
    return sorted((n for n in arrays if n.startswith(prefix)), key=lambda n: int(n[len(prefix) :]))


def _compare(own: torch.Tensor, recorded: torch.Tensor) -> str:
    if own.shape != recorded.shape or own.dtype != recorded.dtype:
        return f"it returns {own.dtype} {tuple(own.shape)}, not {tuple(recorded.shape)}"
    if not own.is_floating_point():
        return "" if torch.equal(own, recorded) else "its outputs differ from the recorded ones"
    relative = max(_MIN_RELATIVE, _ULPS * torch.finfo(own.dtype).eps)
    left, right = own.to(torch.float64), recorded.to(torch.float64)
    finite = right[right.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 1.0
    is_close = torch.allclose(left, right, rtol=relative, atol=relative * scale, equal_nan=True)
    return "" if is_close else "its outputs differ from the recorded ones: they may be random"
