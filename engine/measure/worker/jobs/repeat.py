"""Call a candidate a few times with nobody judging: for a profiler or a sanitizer to watch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch

from kernelkb.measure.worker.judge.inputs import KernelCase, poison
from kernelkb.measure.worker.runner.load_candidate import load_code

Job = dict[str, Any]


def prepare_case(job: Job, case: Job) -> tuple[KernelCase, list[Any], list[torch.Tensor]]:
    """Return a case with fresh inputs and poisoned outputs."""
    torch.set_grad_enabled(False)
    task = KernelCase(job, case)
    given: list[Any] = list(task.make_inputs(random.getrandbits(31)))
    for at, value in task.scalars:
        given.insert(at, value)
    made = [
        torch.empty(tuple(s["shape"]), dtype=getattr(torch, s["dtype"]), device=task.device)
        for s in task.output_specs
    ]
    poison(made)
    return task, given, made


def repeat(job: Job, _folder: Path) -> Job:
    """Call on each case ``times`` times, inside the NVTX range ``kernelkb``.

    ``{"calls": n}``. A kernel that reports an error ends the process with it.
    """
    bind = load_code(job["what"], job["target"])
    for case in job["cases"]:
        task, given, made = prepare_case(job, case)
        call = bind(given, made, task.case_spec["axes"])
        stream = 0
        if job["target"] == "cuda":
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_push("kernelkb")
            stream = torch.cuda.current_stream().cuda_stream
        for _ in range(job["times"]):
            code = call(stream)
            if isinstance(code, int) and code:
                raise RuntimeError(f"the entry point returned {code}")
        if job["target"] == "cuda":
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
    return {"calls": job["times"] * len(job["cases"])}
