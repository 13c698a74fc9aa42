"""What every verb on a real kernel needs first: the kernel, the variant, the machine."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.rules_cache import load_compiled_rules
from kernelkb.decide.parse_metric import find_device
from kernelkb.decide.rules import CompiledRules
from kernelkb.errors import BadValueError, EnvironmentGapError, UnknownNameError
from kernelkb.loading.kernels import KernelFolder, load_kernel, select_variant
from kernelkb.measure.machine.environment import TargetChoice, inspect_compiler, inspect_machine
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.model.base import Target
from kernelkb.model.kernel import Kernel, Variant
from kernelkb.model.measurement import Environment, Machine
from kernelkb.safety.paths import project_root
from kernelkb.safety.workspace import resolve_inside


class BenchTarget(NamedTuple):
    """What to measure, and the project that it is measured in."""

    subject: MeasurementSubject
    project: Path

    @property
    def build_root(self) -> Path:
        """Where this project's builds go."""
        return self.project / ".kb" / "build"

    def with_variant(self, variant: Variant) -> BenchTarget:
        """Return the same place for another variant of the kernel."""
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
    """Validate this machine for a kernel; a cure names the CPU only where that would help.

    Raises:
        UnknownNameError: The kernel has no such variant.
        BadValueError: It has none for this target.
    """
    found = validate_machine(narrow_target(kernel, variant, target))
    if found.machine is not None or found.target == "cpu":
        return found
    on_cpu = any(v.target == "cpu" and variant in (None, v.id) for v in kernel.variants)
    if not on_cpu or validate_machine("cpu").machine is None:
        return found
    lines = [
        line.model_copy(update={"cure": f"{line.cure}; or use --target cpu"})
        if line.status == "failure"
        else line
        for line in found.lines
    ]
    return found.model_copy(update={"lines": tuple(lines)})


def prepare_for_architecture(
    kernel: str, variant: str | None, target: TargetChoice, cc: str
) -> BenchTarget:
    """Find a variant for a GPU that is not here: it can be compiled, and nothing else.

    Args:
        kernel: The kernel's name.
        variant: The variant's id; the first of CUDA by default.
        target: Anything but the CPU.
        cc: Compute capability of that GPU.

    Raises:
        UnknownNameError: No such kernel, or no such variant.
        KnowledgeError: The kernel.yaml is wrong.
        BadValueError: The target is the CPU, or the kernel has no CUDA variant.
        EnvironmentGapError: The machine lacks something; names the first thing and its cure.
    """
    if target == "cpu":
        raise BadValueError("--arch names a GPU's architecture; leave it or --target cpu out")
    source = load_kernel(kernel, get_project_path())
    chosen = select_variant(source.kernel, "cuda", variant)
    machine = require_machine(inspect_compiler(cc, get_project_path() / ".kb"))
    return BenchTarget(MeasurementSubject(source, chosen, machine), get_project_path())


def prepare(kernel: str, variant: str | None = None, target: TargetChoice = "auto") -> BenchTarget:
    """Find a kernel and a variant, and validate the machine for it.

    Args:
        kernel: The kernel's name.
        variant: The variant's id; the first of the target, which is the plain one, by default.
        target: ``auto`` takes CUDA where there is a GPU, a compiler and a variant for it.

    Raises:
        UnknownNameError: No such kernel, or no such variant.
        KnowledgeError: The kernel.yaml is wrong.
        EnvironmentGapError: The machine lacks something; names the first thing and its cure.
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
    found = validate_machine_for_kernel(source.kernel, variant, target)
    chosen = select_variant(source.kernel, found.target, variant)
    return BenchTarget(
        MeasurementSubject(source, chosen, require_machine(found)), get_project_path()
    )


def require_machine(found: Environment) -> Machine:
    """Return the machine.

    Raises:
        EnvironmentGapError: It lacks something.
    """
    if found.machine is None:
        line = next(line for line in found.lines if line.status == "failure")
        raise EnvironmentGapError(f"{line.name}: {line.found}", line.cure)
    return found.machine


def resolve_workload(kernel: Kernel, target: Target, name: str | None) -> str:
    """Return the named workload, or the target's default.

    Raises:
        UnknownNameError: The kernel has no such workload.
    """
    if name is None:
        return kernel.default_workload[target]
    if name not in kernel.workloads:
        kind = f"workload of {kernel.id}"
        raise UnknownNameError(kind, name, kernel.workloads, "show", id=kernel.id)
    return name


def narrow_target(kernel: Kernel, variant: str | None, target: TargetChoice) -> TargetChoice:
    """Resolve ``auto`` as far as the kernel's variants decide it; refuse what they cannot give."""
    possible = {v.target for v in kernel.variants if variant in (None, v.id)}
    if target != "auto":
        select_variant(kernel, target, variant)
        return target
    if not possible:
        names = {v.id for v in kernel.variants}
        kind = f"variant of {kernel.id}"
        raise UnknownNameError(
            kind, "any" if variant is None else variant, names, "show", id=kernel.id
        )
    return "auto" if len(possible) > 1 else next(iter(possible))


def _add_device_id(found: Environment, program: CompiledRules) -> Environment:
    """Add our own id of the GPU, when it is one that the knowledge has."""
    if found.machine is None or found.target == "cpu":
        return found
    device = find_device(program["device_names"], found.machine.title)
    return found.model_copy(update={"machine": found.machine.model_copy(update={"device": device})})
