"""Sizes on which a mutant is compared with its original."""

from __future__ import annotations

from kernelkb.loading.kernels import KernelFolder
from kernelkb.measure.check.check import follows_pattern
from kernelkb.measure.job_specs import format_sizes, make_case_spec
from kernelkb.measure.worker.shared.messages.specs import CaseSpec

_SIZES = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 257)


def list_cases(kernel_folder: KernelFolder) -> list[CaseSpec]:
    """Return the kernel's workloads, its check shapes, and each axis in sizes between those.

    What a kernel does beyond the sizes that its author names is not wrong.
    """
    kernel = kernel_folder.kernel
    sizes = [*kernel.workloads.values(), *kernel.check_workloads]
    base = sizes[0]
    named = tuple(sizes)
    for axis in kernel.axes:
        least, most = (pick(one[axis] for one in named) for pick in (min, max))
        between = [{**base, axis: size} for size in _SIZES if least <= size <= most]
        sizes += [one for one in between if follows_pattern(kernel, named, one)]
    return [make_case_spec(kernel_folder, format_sizes(one), one) for one in sizes]
