"""What is measured: a variant of a kernel on a machine."""

from __future__ import annotations

from typing import Any, NamedTuple

from kernelkb.loading.kernels import KernelFolder
from kernelkb.model.kernel import Variant
from kernelkb.model.measurement import Machine


class MeasurementSubject(NamedTuple):
    """One variant of one kernel on one machine."""

    kernel_folder: KernelFolder
    variant: Variant
    machine: Machine

    @property
    def tries_torch_compile(self) -> bool:
        """Whether torch.compile is tried as a baseline; on a CPU it takes longer than the rest."""
        return self.machine.target == "cuda"

    @property
    def identity_fields(self) -> dict[str, Any]:
        """The fields that every result starts with."""
        return {
            "kernel": self.kernel_folder.kernel.id,
            "variant": self.variant.id,
            "target": self.variant.target,
        }
