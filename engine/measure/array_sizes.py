"""Bytes of a workload's arrays."""

from __future__ import annotations

from kernelkb.loading.kernels import KernelFolder
from kernelkb.model.kernel import DTYPE_BYTES


def working_set_bytes(source: KernelFolder, workload: str) -> int:
    """Return the bytes of all inputs and outputs of a workload."""
    return sum(_bytes(source, workload))


def output_bytes(source: KernelFolder, workload: str) -> int:
    """Return the bytes of all outputs of a workload."""
    return _bytes(source, workload)[1]


def _bytes(source: KernelFolder, workload: str) -> tuple[int, int]:
    sizes = source.kernel.workloads[workload]
    totals = []
    for arrays in (source.kernel.inputs, source.kernel.outputs):
        total = 0
        for array in arrays:
            count = 1
            for dimension in array.shape:
                count *= dimension if isinstance(dimension, int) else sizes[dimension]
            total += count * DTYPE_BYTES[array.dtype]
        totals.append(total)
    return totals[0], totals[1]
