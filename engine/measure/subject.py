"""What is measured: a variant of a kernel on a machine."""

from __future__ import annotations

from typing import Any, NamedTuple

from kernelkb.loading.kernels import KernelFolder
from kernelkb.model.kernel import Variant
from kernelkb.model.measurement import Machine


class Subject(NamedTuple):
    """One variant of one kernel on one machine."""

    source: KernelFolder
    variant: Variant
    machine: Machine

    @property
    def compiles(self) -> bool:
        """Whether torch.compile is tried as a baseline; on a CPU it takes longer than the rest."""
        return self.machine.target == "cuda"

    @property
    def names(self) -> dict[str, Any]:
        """The fields that every result starts with."""
        return {
            "kernel": self.source.kernel.id,
            "variant": self.variant.id,
            "target": self.variant.target,
        }
