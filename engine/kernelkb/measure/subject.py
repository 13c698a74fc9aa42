"""What a measurement measures, one variant of one kernel on one machine, and how: its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kernelkb.loading.kernels import KernelFolder
    from kernelkb.model.kernels.kernel import Kernel, Variant
    from kernelkb.model.records.measurement import Build, Machine


class MeasurementSubject(NamedTuple):
    """One variant of one kernel on one machine."""

    kernel_folder: KernelFolder
    variant: Variant
    machine: Machine

    @property
    def kernel(self) -> Kernel:
        """The kernel that the folder holds."""
        return self.kernel_folder.kernel

    @property
    def tries_torch_compile(self) -> bool:
        """Whether torch.compile is a rival; on a CPU it compiles longer than a bench takes."""
        return self.machine.target == "cuda"

    @property
    def identity_fields(self) -> dict[str, Any]:
        """The fields kernel, variant and target of every result."""
        return {
            "kernel": self.kernel.id,
            "variant": self.variant.id,
            "target": self.variant.target,
        }


class BenchOptions(NamedTuple):
    """How a variant is built, checked and timed, and what is kept of it."""

    timeout_s: float = 120.0
    """Limit for the check and for the bench, in seconds each."""
    budget_s: float | None = None
    """Seconds of timed batches, without compiling, checking and warming up; None: ``KB_BUDGET``, or
    else 3 s."""
    with_sanitizer: bool = False
    """Also run compute-sanitizer, and count its findings as wrong answers."""
    against: str | None = None
    """Id of another variant to time against, besides the other baselines."""
    rival: tuple[MeasurementSubject, Build] | None = None
    """That variant, checked, and its build."""
    only_rival: bool = False
    """Leave out all other baselines."""
    change: str | None = None
    """What the author says that was changed since the state before."""
    again: bool = True
    """Measure it even where the record answers: an equal state, or equal machine code."""
    keeps: bool = True
    """Write results to the project's history and database; a worker leaves that to others."""

    @property
    def may_reuse(self) -> bool:
        """Whether a bench on record may answer: it has neither a sanitizer nor another rival."""
        return not (self.again or self.with_sanitizer or self.against)


DEFAULT_OPTIONS = BenchOptions()
