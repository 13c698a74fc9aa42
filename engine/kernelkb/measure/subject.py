"""What a measurement measures: one variant of one kernel on one machine."""

from __future__ import annotations

from typing import Any, NamedTuple

from kernelkb.loading.kernels import KernelFolder
from kernelkb.model.kernels.kernel import Variant
from kernelkb.model.records.measurement import Machine


class MeasurementSubject(NamedTuple):
    """One variant of one kernel on one machine."""

    kernel_folder: KernelFolder
    variant: Variant
    machine: Machine

    @property
    def tries_torch_compile(self) -> bool:
        """Whether torch.compile is a rival; on a CPU it compiles longer than a bench takes."""
        return self.machine.target == "cuda"

    @property
    def identity_fields(self) -> dict[str, Any]:
        """The fields kernel, variant and target of every result."""
        return {
            "kernel": self.kernel_folder.kernel.id,
            "variant": self.variant.id,
            "target": self.variant.target,
        }
