"""Jobs for runners: which code, in which language, behind which walls."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelkb.measure.process.worker_jobs import MODULE_SEED, Job, make_reference_spec
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.measurement import Build

_SANDBOX_SCRIPT = Path(__file__).with_name("process") / "candidate_sandbox.py"
_MAX_FILE_BYTES = 256 * 2**20
_MAX_THREADS = 4096
_MAX_PROCESSES = 64
_MEMORY_SHARE = 0.75


def make_candidate_spec(subject: MeasurementSubject, build: Build) -> Job:
    """Return the runner of a variant, confined."""
    what = make_code_spec(subject, build)
    if what["kind"] not in ("python", "module"):
        return _make_runner_spec(subject, what, _make_sandbox_command(subject, [], may_fork=False))
    # Triton starts ptxas and a C compiler; what they made is kept for as long as the source is.
    folder = Path(build.directory)
    folder.mkdir(parents=True, exist_ok=True)
    job = _make_runner_spec(
        subject, what, _make_sandbox_command(subject, [str(folder)], may_fork=True)
    )
    return {**job, "caches": str(folder), "forks": True}


def returns_outputs(code: Job) -> bool:
    """Say whether code returns its outputs instead of writing them where it is told."""
    return code["kind"] == "module" or bool(code.get("returns"))


def make_rival_specs(subject: MeasurementSubject, candidate_returns: bool) -> dict[str, Job]:
    """Return the runners of everything that comes with the kernel, by name, each on its own.

    What one of them takes, or how it ends, is not the others' concern.

    Args:
        subject: The kernel, and the candidate among its variants.
        candidate_returns: Whether the candidate returns its outputs; then the reference does so
            too.
    """
    source = subject.kernel_folder
    eager = {**make_reference_spec(source), "out": not candidate_returns}
    if eager["kind"] == "module":
        eager["task"] = eager["file"]
    found = {"torch": eager}
    if subject.tries_torch_compile:
        found["torch.compile"] = {**eager, "compile": True}
    for one in source.kernel.baselines:
        file = str(source.folder / one.file)
        code = {"kind": "python", "file": file, "entry": one.function, "returns": True}
        found[one.name] = code
    return {name: _make_runner_spec(subject, what, []) for name, what in found.items()}


def make_code_spec(subject: MeasurementSubject, build: Build) -> dict[str, Any]:
    """Return what a runner has to load for a variant. See ``worker.runner.load_candidate``."""
    source, variant = subject.kernel_folder, subject.variant
    entry = variant.entry or source.kernel.entry
    file = str(source.folder / variant.source)
    if variant.binding == "module":
        task = str(source.folder / source.kernel.reference.file)
        return {"kind": "module", "file": file, "entry": entry, "task": task, "seed": MODULE_SEED}
    if variant.binding == "python":
        return {"kind": "python", "file": file, "entry": entry, "returns": variant.returns}
    code: dict[str, Any] = {"kind": variant.binding, "library": build.library, "entry": entry}
    if variant.binding == "torch-extension":
        code |= {"module": build.module, "returns": variant.returns}
    return code


def _make_sandbox_command(
    subject: MeasurementSubject, writable: Sequence[str], *, may_fork: bool
) -> Sequence[str]:
    policy = {
        # Sockets that have a name in the file system; the CUDA driver has some of its own.
        "families": [1] if subject.variant.target == "cpu" else [],
        "folder": "{folder}",
        "writable": list(writable),
        "fork": may_fork,
        "file_bytes": _MAX_FILE_BYTES,
    }
    return [sys.executable, "-P", str(_SANDBOX_SCRIPT), json.dumps(policy)]


def _make_runner_spec(subject: MeasurementSubject, code: Job, launcher: Sequence[str]) -> Job:
    return {
        "target": subject.variant.target,
        "what": code,
        "launcher": list(launcher),
        "limits": {
            "memory_bytes": int(_available_memory_bytes() * _MEMORY_SHARE),
            "threads": _MAX_THREADS,
            "processes": _MAX_PROCESSES,
            "file_bytes": _MAX_FILE_BYTES,
        },
    }


def _available_memory_bytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 4 * 2**30
