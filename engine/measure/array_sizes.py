"""Bytes of a workload's arrays."""

from __future__ import annotations

from kernelkb.loading.kernels import KernelFolder
from kernelkb.model.kernel import DTYPE_BYTES


def working_set_bytes(kernel_folder: KernelFolder, workload: str) -> int:
    """Return the bytes of all inputs and outputs of a workload."""
    return sum(_input_and_output_bytes(kernel_folder, workload))


def output_bytes(kernel_folder: KernelFolder, workload: str) -> int:
    """Return the bytes of all outputs of a workload."""
    return _input_and_output_bytes(kernel_folder, workload)[1]


def _input_and_output_bytes(kernel_folder: KernelFolder, workload: str) -> tuple[int, int]:
    sizes = kernel_folder.kernel.workloads[workload]
    totals = []
    for arrays in (kernel_folder.kernel.inputs, kernel_folder.kernel.outputs):
        total = 0
        for array in arrays:
            count = 1
            for dimension in array.shape:
                count *= dimension if isinstance(dimension, int) else sizes[dimension]
            total += count * DTYPE_BYTES[array.dtype]
        totals.append(total)
    return totals[0], totals[1]
