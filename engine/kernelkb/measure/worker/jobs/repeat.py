"""Calls a candidate N times without checking it: for profilers and sanitizers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, poison
from kernelkb.measure.worker.runner.load_candidate import BoundCall, load_code
from kernelkb.measure.worker.shared.messages.other_jobs import (
    RepeatJob,
    RepeatResult,
    TorchProfileJob,
)
from kernelkb.measure.worker.shared.messages.specs import CaseSpec

_NVTX_RANGE = "kernelkb"
"""Range around the calls, which ``kernelkb.measure.profile.ncu`` selects."""
_SEED_BITS = 31


class CaseArguments(NamedTuple):
    """Arguments of one call."""

    inputs: list[Any]
    """Tensors and numbers, in the order of the arguments."""
    outputs: list[torch.Tensor]
    axes: list[int]


def prepare_case(job: RepeatJob | TorchProfileJob, case_spec: CaseSpec) -> CaseArguments:
    """Return fresh inputs and poisoned outputs of a case."""
    torch.set_grad_enabled(False)
    case = KernelCase(job["target"], job["reference"], case_spec)
    inputs: list[Any] = list(case.make_inputs(random.getrandbits(_SEED_BITS)))
    for position, value in case.scalars:
        inputs.insert(position, value)
    outputs = [
        torch.empty(tuple(spec["shape"]), dtype=getattr(torch, spec["dtype"]), device=case.device)
        for spec in case.output_specs
    ]
    poison(outputs)
    return CaseArguments(inputs, outputs, case_spec["axes"])


def repeat(job: RepeatJob, _folder: Path) -> RepeatResult:
    """Call on every case, inside the NVTX range ``kernelkb`` on a GPU.

    Raises:
        RuntimeError: The entry point returned an error code.
    """
    bind = load_code(job["code"], job["target"])
    for case_spec in job["cases"]:
        call = bind(*prepare_case(job, case_spec))
        if job["target"] == "cpu":
            _call_repeatedly(call, job["call_count"], 0)
            continue
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_push(_NVTX_RANGE)
        _call_repeatedly(call, job["call_count"], torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    return {"call_count": job["call_count"] * len(job["cases"])}


def _call_repeatedly(call: BoundCall, count: int, stream: int) -> None:
    for _ in range(count):
        code = call(stream)
        if isinstance(code, int) and code:
            raise RuntimeError(f"the entry point returned {code}")
