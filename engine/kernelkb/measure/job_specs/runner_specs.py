"""Specifications of runner processes: candidate and rivals, their code, sandbox and limits."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelkb.errors import KbError
from kernelkb.measure.job_specs.case_specs import draw_module_seed, make_reference_spec
from kernelkb.measure.machine.host import read_host_memory
from kernelkb.measure.process.candidate_sandbox import SandboxPolicy
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.specs import (
    Code,
    ModuleCode,
    Precision,
    PythonCode,
    RunnerLimits,
    RunnerSpec,
    Target,
)
from kernelkb.model.records.measurement import Build

PRECISION_TITLES: dict[Precision, str] = {
    "fp32": "fp32",
    "tf32": "TF32",
    "bf16-products": "bf16 products",
    "bf16": "bf16",
    "fp16": "fp16",
}
REDUCED_PRECISIONS: dict[Target, tuple[Precision, ...]] = {
    "cpu": ("tf32", "bf16-products", "fp16", "bf16"),
    "cuda": ("tf32", "fp16", "bf16"),
}
"""Below fp32, most exact first; those that change nothing on a machine are found out there."""
_SANDBOX_SCRIPT = Path(__file__).parents[1] / "process" / "candidate_sandbox.py"
_MAX_FILE_BYTES = 256 * 2**20
_MAX_THREADS = 4096
_MAX_PROCESSES = 64
_MEMORY_SHARE = 0.75
"""Of the memory that is available at the start."""
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
        "sandbox_command": _make_sandbox_command(subject, build, writable, may_fork=may_fork),
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
    stated = subject.kernel_folder.kernel.precision
    codes = _make_rival_codes(subject, candidate_returns, "fp32" if stated == "open" else stated)
    return {name: _make_rival_spec(code) for name, code in codes.items()}


def make_reduced_rival_specs(
    subject: MeasurementSubject, candidate_returns: bool
) -> dict[Precision, dict[str, RunnerSpec]]:
    """Return rivals at lower precisions than the task's own, most exact first; see BenchJob.

    Args:
        subject: The kernel, and the candidate among its variants.
        candidate_returns: As for ``make_rival_specs``.
    """
    kernel = subject.kernel_folder.kernel
    has_floats = any(array.dtype == "float32" for array in (*kernel.inputs, *kernel.outputs))
    if not has_floats or not kernel.reference.is_torch:
        return {}
    precisions = REDUCED_PRECISIONS[subject.variant.target]
    if kernel.precision == "tf32":
        precisions = tuple(one for one in precisions if one != "tf32")
    return {
        precision: {
            f"{name} ({PRECISION_TITLES[precision]})": _make_rival_spec(code)
            for name, code in _make_rival_codes(subject, candidate_returns, precision).items()
        }
        for precision in precisions
    }


def _make_rival_codes(
    subject: MeasurementSubject, candidate_returns: bool, precision: Precision | None
) -> dict[str, PythonCode | ModuleCode]:
    kernel_folder = subject.kernel_folder
    codes: dict[str, PythonCode | ModuleCode] = {}
    if kernel_folder.kernel.reference.is_torch:
        codes["torch"] = _make_reference_code(subject, candidate_returns, False)
        if subject.tries_torch_compile:
            codes["torch.compile"] = _make_reference_code(subject, candidate_returns, True)
    for baseline in kernel_folder.kernel.baselines:
        file = str(kernel_folder.folder / baseline.file)
        codes[baseline.name] = _make_python_code(file, baseline.function, returns=True)
    if precision is not None:
        for code in codes.values():
            code["precision"] = precision
    return codes


def _make_rival_spec(code: Code) -> RunnerSpec:
    return {
        "code": code,
        "sandbox_command": [],
        "may_fork": False,
        "cache_folder": None,
        "limits": _make_limits(),
    }


def _make_reference_code(
    subject: MeasurementSubject, candidate_returns: bool, use_compile: bool
) -> PythonCode | ModuleCode:
    reference = make_reference_spec(subject.kernel_folder)
    if reference["kind"] == "code" or reference["kind"] == "recorded":
        raise ValueError("the reference is no torch code")
    file, entry = reference["file"], reference["entry"]
    if reference["kind"] == "module":
        return _make_module_code(file, entry, file, entry, use_compile=use_compile)
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


def _make_module_code(
    file: str, entry: str, task: str, task_entry: str, *, use_compile: bool = False
) -> ModuleCode:
    return {
        "kind": "module",
        "file": file,
        "entry": entry,
        "task": task,
        "task_entry": task_entry,
        "seed": draw_module_seed(),
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
        reference = kernel_folder.kernel.reference
        task = str(kernel_folder.folder / str(reference.file))
        return _make_module_code(file, entry, task, str(reference.module))
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
    subject: MeasurementSubject, build: Build, writable: Sequence[str], *, may_fork: bool
) -> list[str]:
    policy: SandboxPolicy = {
        # Unix sockets reach other programs on this machine; the CUDA driver uses some of its own.
        "families": [_AF_UNIX] if subject.variant.target == "cpu" else [],
        "folder": "{folder}",
        "writable": list(writable),
        "fork": may_fork,
        "file_bytes": _MAX_FILE_BYTES,
        "hidden": _list_record_folders(build),
        "readable": [build.directory, str(subject.kernel_folder.folder)],
    }
    return [sys.executable, "-P", str(_SANDBOX_SCRIPT), json.dumps(policy)]


def _list_record_folders(build: Build) -> list[str]:
    """Return the project's folders of records; a lock on one of them would stop the next record."""
    kb_folders = [folder for folder in Path(build.directory).parents if folder.name == ".kb"]
    return [str(part) for folder in kb_folders for part in (folder, folder.parent / "sessions")]


def _make_limits() -> RunnerLimits:
    return {
        "memory_bytes": int(read_host_memory().available * _MEMORY_SHARE),
        "threads": _MAX_THREADS,
        "processes": _MAX_PROCESSES,
        "file_bytes": _MAX_FILE_BYTES,
    }
