"""Cases of a kernel that have files of their own: hidden tests, further configurations."""

from __future__ import annotations

from kernelkb.loading.kernels import KernelFolder
from kernelkb.measure.job_specs.case_specs import make_input_spec, make_output_spec
from kernelkb.measure.worker.shared.messages.specs import CaseSpec, Reference
from kernelkb.model.kernels.kernel import ExtraCase


def make_extra_case_specs(kernel_folder: KernelFolder, reference: Reference) -> list[CaseSpec]:
    """Return a case for each of the kernel's ``extra_cases``; none of them tests the comparison.

    Args:
        kernel_folder: The kernel.
        reference: Of the job, whose parameters the cases share.
    """
    cases = kernel_folder.kernel.extra_cases
    return [_make_spec(kernel_folder, case, reference) for case in cases]


def _make_spec(kernel_folder: KernelFolder, case: ExtraCase, reference: Reference) -> CaseSpec:
    if reference["kind"] != "module":
        raise ValueError("extra cases need a reference that is a module")
    own = reference.copy()
    own["file"] = str(kernel_folder.folder / case.file)
    sizes = next(iter(kernel_folder.kernel.workloads.values()))  # its shapes name no axes
    return {
        "name": case.name,
        "selftest": False,
        "axis_names": list(kernel_folder.kernel.size_axes),
        "axes": [sizes[axis] for axis in kernel_folder.kernel.size_axes],
        "inputs": [make_input_spec(array, sizes) for array in case.inputs],
        "outputs": [make_output_spec(array, sizes) for array in case.outputs],
        "distributions": [],
        "reference": own,
    }
