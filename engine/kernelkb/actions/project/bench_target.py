"""Names what is measured: project, kernel, variant with its language, workload and machine."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.parse_metric import find_device
from kernelkb.decide.rules import CompiledRules
from kernelkb.errors import BadValueError, EnvironmentGapError, KbError, UnknownNameError
from kernelkb.loading.kernels import KernelFolder, load_kernel, select_variant
from kernelkb.measure.machine.environment import TargetChoice, inspect_compiler, inspect_machine
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import Kernel, Variant
from kernelkb.model.kernels.languages import LANGUAGES
from kernelkb.model.records.measurement import Environment, Machine
from kernelkb.safety.paths import project_root
from kernelkb.safety.workspace import resolve_inside


class BenchTarget(NamedTuple):
    """The variant to measure on this machine, and the project."""

    subject: MeasurementSubject
    project: Path

    @property
    def build_root(self) -> Path:
        """Folder of this project's builds."""
        return self.project / ".kb" / "build"

    def with_variant(self, variant: Variant) -> BenchTarget:
        """Return the same target with another variant of the kernel."""
        return self._replace(subject=self.subject._replace(variant=variant))


def get_project_path() -> Path:
    """Return the root of the project around the working directory."""
    return Path(project_root())


def validate_machine(target: TargetChoice = "auto", *, fresh: bool = False) -> Environment:
    """Validate this machine. See ``kernelkb.measure.machine.environment.inspect_machine``."""
    return _add_device_id(
        inspect_machine(target, get_project_path() / ".kb", fresh=fresh), load_compiled_rules()
    )


def validate_machine_for_kernel(
    kernel: Kernel, variant: str | None = None, target: TargetChoice = "auto"
) -> Environment:
    """Validate this machine for a kernel; a cure names the CPU only if the kernel runs there.

    Raises:
        UnknownNameError: The kernel has no such variant.
        BadValueError: It has none for this target.
    """
    environment = validate_machine(narrow_target(kernel, variant, target))
    if environment.machine is not None or environment.target == "cpu":
        return environment
    on_cpu = any(v.target == "cpu" and variant in (None, v.id) for v in kernel.variants)
    if not on_cpu or validate_machine("cpu").machine is None:
        return environment
    lines = [
        line.model_copy(update={"cure": f"{line.cure}; or use --target cpu"})
        if line.status == "failure"
        else line
        for line in environment.lines
    ]
    return environment.model_copy(update={"lines": tuple(lines)})


def prepare_for_architecture(
    kernel: str, variant: str | None, target: TargetChoice, cc: str
) -> BenchTarget:
    """Find a variant for a GPU that this machine lacks; it can only be compiled.

    Args:
        kernel: The kernel's name.
        variant: The variant's id; the first of CUDA by default.
        target: ``auto`` or ``cuda``.
        cc: Compute capability of that GPU, such as ``9.0``.

    Raises:
        UnknownNameError: No such kernel, or no such variant.
        KnowledgeError: The kernel.yaml is wrong.
        BadValueError: The target is the CPU, or the kernel has no CUDA variant.
        EnvironmentGapError: The machine lacks something; names the first gap and its cure.
    """
    if target == "cpu":
        raise BadValueError(
            "--arch names a GPU architecture, and --target is cpu; leave one of them out"
        )
    return prepare_architecture_in(get_project_path(), kernel, variant, cc)


def prepare_architecture_in(
    project: Path, kernel: str, variant: str | None, cc: str
) -> BenchTarget:
    """As ``prepare_for_architecture``, for a project that need not hold the working directory."""
    source = load_kernel(kernel, project)
    chosen = select_variant(source.kernel, "cuda", variant)
    machine = require_machine(inspect_compiler(cc, project / ".kb"))
    return BenchTarget(MeasurementSubject(source, chosen, machine), project)


def prepare_in(project: Path, kernel: str, variant: str, target: Target) -> BenchTarget:
    """As ``prepare``, for a project that need not hold the working directory.

    Raises:
        UnknownNameError: No such kernel, or no such variant.
        KnowledgeError: The kernel.yaml is wrong.
        EnvironmentGapError: The machine lacks something; names the first gap and its cure.
    """
    source = load_kernel(kernel, project)
    chosen = select_variant(source.kernel, target, variant)
    environment = _add_device_id(inspect_machine(target, project / ".kb"), load_compiled_rules())
    return BenchTarget(MeasurementSubject(source, chosen, require_machine(environment)), project)


def prepare(kernel: str, variant: str | None = None, target: TargetChoice = "auto") -> BenchTarget:
    """Find a kernel and a variant, and validate the machine for it.

    Args:
        kernel: The kernel's name.
        variant: The variant's id; by default the first of the target, which is the plain one.
        target: ``auto`` selects CUDA if there is a GPU, a compiler and a CUDA variant.

    Raises:
        UnknownNameError: No such kernel, or no such variant.
        KnowledgeError: The kernel.yaml is wrong.
        EnvironmentGapError: The machine lacks something; names the first gap and its cure.
    """
    return prepare_loaded(load_kernel(kernel, get_project_path()), variant, target)


def prepare_loaded(
    source: KernelFolder, variant: str | None = None, target: TargetChoice = "auto"
) -> BenchTarget:
    """Find a variant of a kernel that is loaded, and validate the machine for it.

    Raises:
        UnknownNameError: There is no such variant.
        EnvironmentGapError: The machine lacks something.
    """
    resolve_inside(get_project_path() / ".kb", to_write=True)
    environment = validate_machine_for_kernel(source.kernel, variant, target)
    chosen = select_variant(source.kernel, environment.target, variant)
    return BenchTarget(
        MeasurementSubject(source, chosen, require_machine(environment)), get_project_path()
    )


def require_machine(environment: Environment) -> Machine:
    """Return the machine.

    Raises:
        EnvironmentGapError: It lacks something.
    """
    if environment.machine is None:
        line = next(line for line in environment.lines if line.status == "failure")
        raise EnvironmentGapError(f"{line.name}: {line.found}", line.cure)
    return environment.machine


def resolve_workload(kernel: Kernel, target: Target, name: str | None) -> str:
    """Return the named workload, or the target's default.

    Raises:
        UnknownNameError: The kernel has no such workload.
        BadValueError: None is named, and the kernel has no default for the target.
    """
    if name is not None:
        return require_workload(kernel, name)
    if target not in kernel.default_workload:
        known = ", ".join(kernel.workloads)
        raise BadValueError(
            f"{kernel.id} has no default workload for {target}; name one ({known}), or add it to "
            "default_workload in its kernel.yaml"
        )
    return kernel.default_workload[target]


def require_workload(kernel: Kernel, name: str) -> str:
    """Return the name of a workload.

    Raises:
        UnknownNameError: The kernel has no such workload.
    """
    if name not in kernel.workloads:
        kind = f"workload of {kernel.id}"
        raise UnknownNameError(kind, name, kernel.workloads, "show", id=kernel.id)
    return name


def narrow_target(kernel: Kernel, variant: str | None, target: TargetChoice) -> TargetChoice:
    """Resolve ``auto`` if the kernel's variants have one target only.

    Raises:
        UnknownNameError: The kernel has no such variant, or none for the target.
    """
    targets = {v.target for v in kernel.variants if variant in (None, v.id)}
    if target != "auto":
        select_variant(kernel, target, variant)
        return target
    if not targets:
        names = {v.id for v in kernel.variants}
        kind = f"variant of {kernel.id}"
        raise UnknownNameError(
            kind, "any" if variant is None else variant, names, "show", id=kernel.id
        )
    return "auto" if len(targets) > 1 else next(iter(targets))


def _add_device_id(environment: Environment, program: CompiledRules) -> Environment:
    """Add the id of the GPU, if the knowledge has this GPU."""
    if environment.machine is None or environment.target == "cpu":
        return environment
    device = find_device(program["device_names"], environment.machine.title)
    return environment.model_copy(
        update={"machine": environment.machine.model_copy(update={"device": device})}
    )


def measure_language(variant: Variant) -> dict[str, float]:
    """Return the metric of a variant's language, such as ``triton_kernel``; nothing without one."""
    metric = LANGUAGES[variant.language].metric
    return {metric: 1.0} if metric else {}


def measure_language_by_name(
    kernel: str, target: Target, variant: str | None = None
) -> dict[str, float]:
    """Do as ``measure_language`` for a kernel by its name; nothing where it cannot be loaded.

    Args:
        kernel: Its name.
        target: Of the variant.
        variant: The variant's id; None: the first one.
    """
    try:
        folder = load_kernel(kernel, get_project_path())
        return measure_language(select_variant(folder.kernel, target, variant))
    except KbError:
        return {}
