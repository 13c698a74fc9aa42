"""Call the candidate and hand its raw outputs over. Nothing here knows the right answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from engine.measure.worker import data
from engine.measure.worker.candidate import KernelError, checked, load

Job = dict[str, Any]


def execute(job: Job, folder: Path) -> Job:
    """Run every case once: ``{"cases": [{"error": text | None, "mutated": [names]}]}``.

    Outputs of case i lie in ``out-<i>-<j>.bin``. ``progress`` names the case being run, for
    whoever finds this process dead.
    """
    done: list[Job] = []
    for at, case in enumerate(job["cases"]):
        (folder / "progress").write_text(case["name"], encoding="utf-8")
        given = data.inputs(case["inputs"], case["seed"], job["target"])
        kept = [tensor.clone() for tensor in given]
        made = data.poisoned(case["outputs"], job["target"])
        try:
            checked(load(job["library"], job["entry"], case["axes"], job["target"]), given, made)
            error = None
        except KernelError as problem:
            error = str(problem)
        for position, tensor in enumerate(made):
            data.save(tensor, folder / f"out-{at}-{position}.bin")
        names = [spec["name"] for spec in case["inputs"]]
        pairs = zip(names, given, kept, strict=True)
        mutated = [name for name, now, before in pairs if not torch.equal(now, before)]
        done.append({"error": error, "mutated": mutated})
    return {"cases": done}


def repeat(job: Job, _folder: Path) -> Job:
    """Call the candidate a few times on one case, for a profiler to watch."""
    case = job["cases"][0]
    given = data.inputs(case["inputs"], case["seed"], job["target"])
    made = data.poisoned(case["outputs"], job["target"])
    call = load(job["library"], job["entry"], case["axes"], job["target"])
    for _ in range(job["times"]):
        checked(call, given, made)
    return {"calls": job["times"]}
