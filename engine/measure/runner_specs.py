"""Specifications of runner processes: candidate and rivals, their code, sandbox and limits."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelkb.errors import KbError
from kernelkb.measure.case_specs import MODULE_SEED, make_reference_spec
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.specs import (
    Code,
    ModuleCode,
    PythonCode,
    RunnerLimits,
    RunnerSpec,
)
from kernelkb.model.measurement import Build

_SANDBOX_SCRIPT = Path(__file__).with_name("process") / "candidate_sandbox.py"
_MAX_FILE_BYTES = 256 * 2**20
_MAX_THREADS = 4096
_MAX_PROCESSES = 64
_MEMORY_SHARE = 0.75
"""Of the memory that is available at the start."""
_FALLBACK_MEMORY_BYTES = 4 * 2**30
_AF_UNIX = 1


def make_candidate_spec(subject: MeasurementSubject, build: Build) -> RunnerSpec:
    """Return the sandboxed runner of a variant."""
    code = make_code_spec(subject, build)
    may_fork = code["kind"] in ("python", "module")  # Triton runs ptxas and a C compiler
    writable: list[str] = []
    if may_fork:
        # Their output is kept with the build, for as long as the source stays the same.
        Path(build.directory).mkdir(parents=True, exist_ok=True)
        writable = [build.directory]
    return {
        "code": code,
        "sandbox_command": _make_sandbox_command(subject, writable, may_fork=may_fork),
        "may_fork": may_fork,
        "cache_folder": build.directory if may_fork else None,
        "limits": _make_limits(),
    }


def returns_outputs(code: Code) -> bool:
    """Return whether code returns its outputs instead of writing them to given arrays."""
    if code["kind"] == "python" or code["kind"] == "torch-extension":
        return code["returns"]
    return code["kind"] == "module"


def make_rival_specs(subject: MeasurementSubject, candidate_returns: bool) -> dict[str, RunnerSpec]:
    """Return the runners of reference and baselines, by name, without a sandbox.

    Args:
        subject: The kernel, and the candidate among its variants.
        candidate_returns: Whether the candidate returns its outputs. If not, the reference writes
            to given arrays too, where it has a parameter ``out``.
    """
    kernel_folder = subject.kernel_folder
    codes: dict[str, Code] = {"torch": _make_reference_code(subject, candidate_returns, False)}
    if subject.tries_torch_compile:
        codes["torch.compile"] = _make_reference_code(subject, candidate_returns, True)
    for baseline in kernel_folder.kernel.baselines:
        file = str(kernel_folder.folder / baseline.file)
        codes[baseline.name] = _make_python_code(file, baseline.function, returns=True)
    return {
        name: {
            "code": code,
            "sandbox_command": [],
            "may_fork": False,
            "cache_folder": None,
            "limits": _make_limits(),
        }
        for name, code in codes.items()
    }


def _make_reference_code(
    subject: MeasurementSubject, candidate_returns: bool, use_compile: bool
) -> PythonCode | ModuleCode:
    reference = make_reference_spec(subject.kernel_folder)
    file, entry = reference["file"], reference["entry"]
    if reference["kind"] == "module":
        return _make_module_code(file, entry, file, use_compile=use_compile)
    code = _make_python_code(file, entry, returns=True)
    code["use_out"], code["compile"] = not candidate_returns, use_compile
    return code


def _make_python_code(file: str, entry: str, *, returns: bool) -> PythonCode:
    return {
        "kind": "python",
        "file": file,
        "entry": entry,
        "returns": returns,
        "use_out": False,
        "compile": False,
    }


def _make_module_code(file: str, entry: str, task: str, *, use_compile: bool = False) -> ModuleCode:
    return {
        "kind": "module",
        "file": file,
        "entry": entry,
        "task": task,
        "seed": MODULE_SEED,
        "compile": use_compile,
    }


def make_code_spec(subject: MeasurementSubject, build: Build) -> Code:
    """Return the code that a runner loads for a variant.

    Raises:
        KbError: The variant is compiled and the build has no library.
    """
    kernel_folder, variant = subject.kernel_folder, subject.variant
    entry = variant.entry or kernel_folder.kernel.entry
    file = str(kernel_folder.folder / variant.source)
    if variant.binding == "module":
        task = str(kernel_folder.folder / kernel_folder.kernel.reference.file)
        return _make_module_code(file, entry, task)
    if variant.binding == "python":
        return _make_python_code(file, entry, returns=variant.returns)
    if build.library is None:
        raise KbError(f"{variant.id} was not built; run kb build {kernel_folder.kernel.id}")
    if variant.binding == "torch-extension":
        return {
            "kind": "torch-extension",
            "library": build.library,
            "module": str(build.module),
            "entry": entry,
            "returns": variant.returns,
        }
    if variant.binding == "tvm-ffi":
        return {"kind": "tvm-ffi", "library": build.library, "entry": entry}
    return {"kind": "c", "library": build.library, "entry": entry}


def _make_sandbox_command(
    subject: MeasurementSubject, writable: Sequence[str], *, may_fork: bool
) -> list[str]:
    policy = {
        # Unix sockets reach other programs on this machine; the CUDA driver uses some of its own.
        "families": [_AF_UNIX] if subject.variant.target == "cpu" else [],
        "folder": "{folder}",
        "writable": list(writable),
        "fork": may_fork,
        "file_bytes": _MAX_FILE_BYTES,
    }
    return [sys.executable, "-P", str(_SANDBOX_SCRIPT), json.dumps(policy)]


def _make_limits() -> RunnerLimits:
    return {
        "memory_bytes": int(_available_memory_bytes() * _MEMORY_SHARE),
        "threads": _MAX_THREADS,
        "processes": _MAX_PROCESSES,
        "file_bytes": _MAX_FILE_BYTES,
    }


def _available_memory_bytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return _FALLBACK_MEMORY_BYTES
