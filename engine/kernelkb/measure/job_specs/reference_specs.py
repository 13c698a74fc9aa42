"""The reference of a check or bench that is code: a variant, or a C++ function of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kernelkb.errors import BadValueError, KbError
from kernelkb.loading.kernels import KernelFolder
from kernelkb.measure.build.build import build
from kernelkb.measure.job_specs.case_specs import make_reference_spec
from kernelkb.measure.job_specs.runner_specs import make_candidate_spec, make_code_spec
from kernelkb.measure.machine.environment import inspect_machine
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.specs import Reference, RunnerSpec
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import Kernel, Variant
from kernelkb.model.kernels.languages import LANGUAGES, choose_compiled_language
from kernelkb.model.records.measurement import Build, Machine

_FUNCTION_ID = "reference"
RECORDED_NOTE = (
    "the reference is a recorded output: only the recorded inputs were checked, so no other "
    "values, sizes or hidden inputs; a kernel that keeps these answers would pass"
)


def find_reference_variant(kernel: Kernel, target: Target) -> Variant | None:
    """Return the code that is the reference, as a variant; None for torch code and recordings.

    Args:
        kernel: The kernel.
        target: The candidate's; of variants with one name, that of the same target is preferred.
    """
    reference = kernel.reference
    if reference.variant is not None:
        named = [one for one in kernel.variants if one.id == reference.variant]
        return next((one for one in named if one.target == target), named[0])
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
    kernel, variant = subject.kernel_folder.kernel, subject.variant
    if not is_reference(kernel, variant):
        return
    others = ", ".join(one.id for one in kernel.variants if not is_reference(kernel, one))
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
        "computes_in": subject.kernel_folder.kernel.reference.computes_in,
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


def make_code_rivals(subject: MeasurementSubject, built: Build) -> dict[str, RunnerSpec]:
    """Return the reference as a rival, where it is a variant that runs on the same device."""
    if subject.kernel_folder.kernel.reference.variant is None:
        return {}
    code = build_reference(subject, built)
    if code is None or code[0].variant.target != subject.variant.target:
        return {}
    return {f"variant {code[0].variant.id}": make_candidate_spec(*code)}


def require_rival(subject: MeasurementSubject, runners: Mapping[str, RunnerSpec]) -> None:
    """Raise BadValueError where a candidate is alone among the runners."""
    if len(runners) > 1:
        return
    kernel, variant = subject.kernel_folder.kernel, subject.variant
    others = [one.id for one in kernel.variants if one.target == variant.target and one != variant]
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
            f"the reference of {subject.kernel_folder.kernel.id} runs on {target}, for which this "
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
