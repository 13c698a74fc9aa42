"""Jobs for runners: which code, in which language, behind which walls."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelkb.measure.process.worker_jobs import MODULE_SEED, Job, reference_of
from kernelkb.measure.subject import Subject
from kernelkb.model.measurement import Build

_CONFINE = Path(__file__).with_name("process") / "candidate_sandbox.py"
_FILE_BYTES = 256 * 2**20
_THREADS = 4096
_PROCESSES = 64
_SPARE = 0.75


def candidate_job(subject: Subject, built: Build) -> Job:
    """Return the runner of a variant, confined."""
    what = code_of(subject, built)
    if what["kind"] not in ("python", "module"):
        return _runner(subject, what, _launcher(subject, [], forks=False))
    # Triton starts ptxas and a C compiler; what they made is kept for as long as the source is.
    folder = Path(built.directory)
    folder.mkdir(parents=True, exist_ok=True)
    job = _runner(subject, what, _launcher(subject, [str(folder)], forks=True))
    return {**job, "caches": str(folder), "forks": True}


def returns(code: Job) -> bool:
    """Say whether code returns its outputs instead of writing them where it is told."""
    return code["kind"] == "module" or bool(code.get("returns"))


def rival_jobs(subject: Subject, returning: bool) -> dict[str, Job]:
    """Return the runners of everything that comes with the kernel, by name, each on its own.

    What one of them takes, or how it ends, is not the others' concern.

    Args:
        subject: The kernel, and the candidate among its variants.
        returning: Whether the candidate returns its outputs; then the reference does so too.
    """
    source = subject.source
    eager = {**reference_of(source), "out": not returning}
    if eager["kind"] == "module":
        eager["task"] = eager["file"]
    found = {"torch": eager}
    if subject.compiles:
        found["torch.compile"] = {**eager, "compile": True}
    for one in source.kernel.baselines:
        file = str(source.folder / one.file)
        code = {"kind": "python", "file": file, "entry": one.function, "returns": True}
        found[one.name] = code
    return {name: _runner(subject, what, []) for name, what in found.items()}


def code_of(subject: Subject, built: Build) -> dict[str, Any]:
    """Return what a runner has to load for a variant. See ``worker.runner.load_candidate``."""
    source, variant = subject.source, subject.variant
    entry = variant.entry or source.kernel.entry
    file = str(source.folder / variant.source)
    if variant.binding == "module":
        task = str(source.folder / source.kernel.reference.file)
        return {"kind": "module", "file": file, "entry": entry, "task": task, "seed": MODULE_SEED}
    if variant.binding == "python":
        return {"kind": "python", "file": file, "entry": entry, "returns": variant.returns}
    code: dict[str, Any] = {"kind": variant.binding, "library": built.library, "entry": entry}
    if variant.binding == "torch-extension":
        code |= {"module": built.module, "returns": variant.returns}
    return code


def _launcher(subject: Subject, writable: Sequence[str], *, forks: bool) -> Sequence[str]:
    policy = {
        # Sockets that have a name in the file system; the CUDA driver has some of its own.
        "families": [1] if subject.variant.target == "cpu" else [],
        "folder": "{folder}",
        "writable": list(writable),
        "fork": forks,
        "file_bytes": _FILE_BYTES,
    }
    return [sys.executable, "-P", str(_CONFINE), json.dumps(policy)]


def _runner(subject: Subject, what: Job, launcher: Sequence[str]) -> Job:
    return {
        "target": subject.variant.target,
        "what": what,
        "launcher": list(launcher),
        "limits": {
            "memory_bytes": int(_available_bytes() * _SPARE),
            "threads": _THREADS,
            "processes": _PROCESSES,
            "file_bytes": _FILE_BYTES,
        },
    }


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 4 * 2**30
