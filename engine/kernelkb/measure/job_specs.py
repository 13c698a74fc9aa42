"""What a job tells its worker: the cases, the runners of candidate and rivals, the reference."""

from __future__ import annotations

import json
import math
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from kernelkb.errors import BadValueError, KbError
from kernelkb.loading.kernels import KernelFolder
from kernelkb.measure.build.build import build
from kernelkb.measure.machine.environment import inspect_machine
from kernelkb.measure.machine.host import read_host_memory
from kernelkb.measure.process.candidate_sandbox import SandboxPolicy
from kernelkb.measure.subject import BenchOptions, MeasurementSubject
from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    Code,
    Distribution,
    InputSpec,
    ModuleCode,
    OutputSpec,
    Precision,
    PythonCode,
    Reference,
    RunnerLimits,
    RunnerSpec,
    ScalarSpec,
    Target,
    Tolerances,
)
from kernelkb.model.kernels.kernel import DTYPE_BYTES, Array, Input, Kernel, Output, Variant
from kernelkb.model.kernels.languages import LANGUAGES, choose_compiled_language
from kernelkb.model.records.measurement import Build, Machine

_SEED_BITS = 31

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
_SANDBOX_SCRIPT = Path(__file__).parent / "process" / "candidate_sandbox.py"
_MAX_FILE_BYTES = 256 * 2**20
_MAX_THREADS = 4096
_MAX_PROCESSES = 64
_MEMORY_SHARE = 0.75
"""Of the memory that is available at the start."""
_AF_UNIX = 1

_FUNCTION_ID = "reference"
RECORDED_NOTE = (
    "the reference is a recorded output: only the recorded inputs were checked, so no other "
    "values, sizes or hidden inputs; a kernel that keeps these answers would pass"
)


class JudgedCode(NamedTuple):
    """The code that a judge is given, and what it compares its outputs with."""

    runners: dict[str, RunnerSpec]
    """By name: the candidate, and in a bench its rivals."""
    reduced_rivals: dict[Precision, dict[str, RunnerSpec]]
    """Those that only a candidate has whose errors are as large."""
    reference: Reference


def make_judged_code(
    subject: MeasurementSubject, build: Build, options: BenchOptions | None = None
) -> JudgedCode:
    """Return the candidate, its rivals and the reference; all draw the same parameters.

    Args:
        subject: The variant that is judged.
        build: Its build.
        options: Of a bench; None: of a check, which has no rivals.

    Raises:
        BadValueError: It would be compared with itself, or there is no rival.
    """
    runners = {"candidate": make_candidate_spec(subject, build)}
    reduced: dict[Precision, dict[str, RunnerSpec]] = {}
    if options is not None:
        returns = returns_outputs(runners["candidate"]["code"])
        if not options.only_rival:
            runners |= make_rival_specs(subject, returns) | _make_code_rivals(subject, build)
            reduced = make_reduced_rival_specs(subject, returns)
        if options.rival:
            runners[f"variant {options.rival[0].variant.id}"] = make_candidate_spec(*options.rival)
        _require_rival(subject, runners)
    reference = prepare_reference(subject, build)
    for specs in (runners, *reduced.values()):
        _share_module_seed(reference, (spec["code"] for spec in specs.values()))
    return JudgedCode(runners, reduced, reference)


def list_distributions(kernel: Kernel) -> list[Distribution]:
    """Return the hidden distributions of a kernel: none where only recorded inputs are known."""
    if kernel.reference.recorded is not None:
        return []
    return [name for name in get_args(Distribution) if name not in kernel.hidden_inputs.skip]


def make_case_spec(
    kernel_folder: KernelFolder, name: str, sizes: Mapping[str, int], selftest: bool = False
) -> CaseSpec:
    """Return one case: concrete shapes, and the axes in the order of the entry point's arguments.

    Args:
        kernel_folder: The kernel.
        name: A workload's name, or sizes as text.
        sizes: By axis.
        selftest: Whether the judge tests its comparison with wrong outputs on this case.
    """
    kernel = kernel_folder.kernel
    spec: CaseSpec = {
        "name": name,
        "selftest": selftest,
        "axis_names": list(kernel.size_axes),
        "axes": [sizes[axis] for axis in kernel.size_axes],
        "inputs": [make_input_spec(array, sizes) for array in kernel.inputs],
        "outputs": [make_output_spec(array, sizes) for array in kernel.outputs],
        "distributions": [],
    }
    if kernel.precision is not None:
        spec["precision"] = kernel.precision
    return spec


def make_input_spec(array: Input, sizes: Mapping[str, int]) -> InputSpec | ScalarSpec:
    """Return an input with concrete sizes: an array, or a number."""
    if array.value is not None:
        value = sizes[array.value] if isinstance(array.value, str) else array.value
        return {"name": array.name, "value": bool(value) if array.dtype == "bool" else value}
    spec: InputSpec = {
        "name": array.name,
        "shape": array.resolve_shape(sizes),
        "dtype": array.dtype,
        "fill": array.fill,
        "scale": array.resolve_scale(sizes),
    }
    return {**spec, "low": array.low} if array.low else spec


def make_output_spec(array: Output, sizes: Mapping[str, int]) -> OutputSpec:
    """Return an output with concrete sizes."""
    return {
        "name": array.name,
        "shape": array.resolve_shape(sizes),
        "dtype": array.dtype,
        "starts_as": array.starts_as,
    }


def draw_module_seed() -> int:
    """Return a new seed for the parameters of a ``torch.nn.Module``: unlike any earlier run's."""
    return secrets.randbits(_SEED_BITS)


def _share_module_seed(reference: Reference, codes: Iterable[Code]) -> None:
    """Give the modules of a job, reference and candidates, one seed for their parameters.

    Without it each has a seed of its own, which is enough where nothing is compared.
    """
    if reference["kind"] == "module":
        for code in codes:
            if code["kind"] == "module":
                code["seed"] = reference["seed"]


def make_reference_spec(kernel_folder: KernelFolder) -> Reference:
    """Return where the reference is, and of which kind; a module gets a new seed.

    One that is compiled code, or a variant, is not there before it is built: where only inputs are
    drawn, as for a profile, this suffices; ``prepare_reference`` returns it whole.
    """
    reference = kernel_folder.kernel.reference
    if reference.recorded is not None:
        recorded = str(kernel_folder.folder / reference.recorded)
        return {"kind": "recorded", "file": recorded, "inputs": None}
    if reference.file is None or reference.is_compiled:
        return {
            "kind": "code",
            "code": {"kind": "c", "library": "", "entry": ""},
            "target": "cpu",
            "computes_in": None,
            "inputs": None,
        }
    file = str(kernel_folder.folder / reference.file)
    if reference.module is not None:
        return {
            "kind": "module",
            "file": file,
            "entry": reference.module,
            "seed": draw_module_seed(),
        }
    entry = str(reference.function)
    return {"kind": "python", "file": file, "entry": entry, "inputs": reference.inputs}


def make_tolerances(kernel_folder: KernelFolder) -> Tolerances:
    """Return the kernel's own tolerances, by dtype."""
    return {
        dtype: {
            "atol": tolerance.atol,
            "rtol": tolerance.rtol,
            "matched_ratio": tolerance.matched_ratio,
            "max_error": tolerance.max_error,
        }
        for dtype, tolerance in kernel_folder.kernel.tolerances.items()
    }


def format_sizes(sizes: Mapping[str, int]) -> str:
    """Return sizes as text: ``rows=3 cols=1000``."""
    return " ".join(f"{axis}={size}" for axis, size in sizes.items())


def working_set_bytes(kernel_folder: KernelFolder, workload: str) -> int:
    """Return the bytes of all inputs and outputs of a workload."""
    sizes = kernel_folder.kernel.workloads[workload]
    return _total_bytes(kernel_folder.kernel.inputs, sizes) + output_bytes(kernel_folder, workload)


def output_bytes(kernel_folder: KernelFolder, workload: str) -> int:
    """Return the bytes of all outputs of a workload."""
    sizes = kernel_folder.kernel.workloads[workload]
    return _total_bytes(kernel_folder.kernel.outputs, sizes)


def count_input_elements(kernel_folder: KernelFolder, sizes: Mapping[str, int]) -> int:
    """Return the elements of all inputs for some sizes."""
    return sum(math.prod(array.resolve_shape(sizes)) for array in kernel_folder.kernel.inputs)


def _total_bytes(arrays: Iterable[Array], sizes: Mapping[str, int]) -> int:
    return sum(math.prod(array.resolve_shape(sizes)) * DTYPE_BYTES[array.dtype] for array in arrays)


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
    stated = subject.kernel.precision
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
    kernel = subject.kernel
    has_floats = any(array.dtype == "float32" for array in (*kernel.inputs, *kernel.outputs))
    if not has_floats or not kernel.reference.is_torch:
        return {}
    precisions = REDUCED_PRECISIONS[subject.variant.target]
    if kernel.precision == "tf32":
        precisions = tuple(name for name in precisions if name != "tf32")
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
        # The judge's files, around its own folder, say what is asked of it, and in which phase.
        "hidden": [*_list_record_folders(build), "{folder}/.."],
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


def find_reference_variant(kernel: Kernel, target: Target) -> Variant | None:
    """Return the code that is the reference, as a variant; None for torch code and recordings.

    Args:
        kernel: The kernel.
        target: The candidate's; of variants with one name, that of the same target is preferred.
    """
    reference = kernel.reference
    if reference.variant is not None:
        variants = [variant for variant in kernel.variants if variant.id == reference.variant]
        return next((variant for variant in variants if variant.target == target), variants[0])
    if not reference.is_compiled:
        return None
    source = str(reference.file)
    own: Target = "cuda" if source.endswith(LANGUAGES["cuda"].suffixes) else "cpu"
    return Variant(
        id=_FUNCTION_ID,
        target=own,
        language=choose_compiled_language(own),
        source=source,
        entry=reference.function,
        summary="the reference",
    )


def is_reference(kernel: Kernel, variant: Variant) -> bool:
    """Return whether a variant is the code that is the reference."""
    own = find_reference_variant(kernel, variant.target)
    if own is None:
        return False
    entry = variant.entry or kernel.entry
    return (own.source, own.entry or kernel.entry, own.target) == (
        variant.source,
        entry,
        variant.target,
    )


def require_other_code(subject: MeasurementSubject) -> None:
    """Raise BadValueError for a variant that is the reference: nothing can be said of it."""
    kernel, variant = subject.kernel, subject.variant
    if not is_reference(kernel, variant):
        return
    others = ", ".join(other.id for other in kernel.variants if not is_reference(kernel, other))
    added = f"kb variant add {kernel.id} NAME --from {variant.id}"
    raise BadValueError(
        f"{variant.id} is the reference of {kernel.id}, and would be compared with itself; "
        + (f"name another variant: {others}" if others else f"add another variant: {added}")
        + ", or give the kernel another reference"
    )


def prepare_reference(subject: MeasurementSubject, built: Build) -> Reference:
    """Return the reference of a job; one that is compiled code is built, or its build is found.

    Args:
        subject: The candidate.
        built: Its build, beside which the reference's is kept.

    Raises:
        BadValueError: The candidate is the reference.
        EnvironmentGapError: The machine lacks what building the reference needs.
        KbError: The reference does not compile.
    """
    require_other_code(subject)
    code = build_reference(subject, built)
    if code is None:
        return make_reference_spec(subject.kernel_folder)
    return {
        "kind": "code",
        "code": make_code_spec(*code),
        "target": code[0].variant.target,
        "computes_in": subject.kernel.reference.computes_in,
        "inputs": None,
    }


def build_reference(
    subject: MeasurementSubject, built: Build
) -> tuple[MeasurementSubject, Build] | None:
    """Build a reference that is code, and return it with its build; None for other references.

    Raises:
        As ``prepare_reference``.
    """
    kernel_folder, root = subject.kernel_folder, Path(built.directory).parents[1]
    variant = find_reference_variant(kernel_folder.kernel, subject.variant.target)
    if variant is None:
        return None
    machine = _find_machine(subject, variant.target, root)
    own = MeasurementSubject(kernel_folder, variant, machine)
    done = build(own, root)
    if done.status == "failed":
        raise KbError(
            f"the reference of {kernel_folder.kernel.id} does not compile: {done.error}; "
            f"fix {kernel_folder.folder / variant.source}"
        )
    return own, done


def _make_code_rivals(subject: MeasurementSubject, built: Build) -> dict[str, RunnerSpec]:
    """Return the reference as a rival, where it is a variant that runs on the same device."""
    if subject.kernel.reference.variant is None:
        return {}
    code = build_reference(subject, built)
    if code is None or code[0].variant.target != subject.variant.target:
        return {}
    return {f"variant {code[0].variant.id}": make_candidate_spec(*code)}


def _require_rival(subject: MeasurementSubject, runners: Mapping[str, RunnerSpec]) -> None:
    """Raise BadValueError where a candidate is alone among the runners."""
    if len(runners) > 1:
        return
    kernel, variant = subject.kernel, subject.variant
    others = [
        other.id for other in kernel.variants if other.target == variant.target and other != variant
    ]
    raise BadValueError(
        f"there is nothing to time {variant.id} against: the reference of {kernel.id} is no torch "
        "code that could be timed; "
        + (f"name another variant: --against {others[0]}" if others else "add another variant")
        + ", or add a baseline to kernel.yaml"
    )


def _find_machine(subject: MeasurementSubject, target: Target, root: Path) -> Machine:
    """Return the machine as it is for a target: a reference may run on a CPU beside a GPU."""
    if subject.machine.target == target:
        return subject.machine
    machine = inspect_machine(target, root).machine
    if machine is None:
        raise BadValueError(
            f"the reference of {subject.kernel.id} runs on {target}, for which this "
            f"machine lacks something; kb env --target {target} says what"
        )
    return machine


def describe_reference(kernel_folder: KernelFolder, target: Target) -> tuple[str, ...]:
    """Return what a verdict has to say about its reference; nothing for torch code."""
    kernel = kernel_folder.kernel
    if kernel.reference.recorded is not None:
        return (RECORDED_NOTE,)
    own = find_reference_variant(kernel, target)
    if own is None:
        return ()
    what = f"the variant {own.id}" if kernel.reference.variant else f"{own.entry} of {own.source}"
    return (f"the reference is {what}: what it computes is taken for right",)
