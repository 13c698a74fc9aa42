"""Concrete shapes of a kernel's workloads: cases for the worker, and bytes of their arrays."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping

from kernelkb.loading.kernels import KernelFolder
from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    Code,
    InputSpec,
    OutputSpec,
    Reference,
    ScalarSpec,
    Tolerances,
)
from kernelkb.model.kernels.kernel import DTYPE_BYTES, Array, Input, Output

_SEED_BITS = 31


def make_case_spec(
    kernel_folder: KernelFolder, name: str, sizes: Mapping[str, int], selftest: bool = False
) -> CaseSpec:
    """Return one case: concrete shapes, and the axes in the order of the entry point's arguments.

    Args:
        kernel_folder: The kernel.
        name: A workload's name, or sizes as text.
        sizes: By axis.
        selftest: Whether the judge tests its comparison with wrong outputs on this case.
    """
    kernel = kernel_folder.kernel
    spec: CaseSpec = {
        "name": name,
        "selftest": selftest,
        "axis_names": list(kernel.size_axes),
        "axes": [sizes[axis] for axis in kernel.size_axes],
        "inputs": [make_input_spec(array, sizes) for array in kernel.inputs],
        "outputs": [make_output_spec(array, sizes) for array in kernel.outputs],
        "distributions": [],
    }
    if kernel.precision is not None:
        spec["precision"] = kernel.precision
    return spec


def make_input_spec(array: Input, sizes: Mapping[str, int]) -> InputSpec | ScalarSpec:
    """Return an input with concrete sizes: an array, or a number."""
    if array.value is not None:
        value = sizes[array.value] if isinstance(array.value, str) else array.value
        return {"name": array.name, "value": bool(value) if array.dtype == "bool" else value}
    return {
        "name": array.name,
        "shape": _concrete_shape(array, sizes),
        "dtype": array.dtype,
        "fill": array.fill,
        "scale": array.scale,
    }


def make_output_spec(array: Output, sizes: Mapping[str, int]) -> OutputSpec:
    """Return an output with concrete sizes."""
    return {
        "name": array.name,
        "shape": _concrete_shape(array, sizes),
        "dtype": array.dtype,
        "starts_as": array.starts_as,
    }


def _concrete_shape(array: Array, sizes: Mapping[str, int]) -> list[int]:
    return [size if isinstance(size, int) else sizes[size] for size in array.shape]


def draw_module_seed() -> int:
    """Return a new seed for the parameters of a ``torch.nn.Module``: unlike any earlier run's."""
    return secrets.randbits(_SEED_BITS)


def share_module_seed(reference: Reference, codes: Iterable[Code]) -> None:
    """Give the modules of a job, reference and candidates, one seed for their parameters.

    Without it each has a seed of its own, which is enough where nothing is compared.
    """
    if reference["kind"] == "module":
        for code in codes:
            if code["kind"] == "module":
                code["seed"] = reference["seed"]


def make_reference_spec(kernel_folder: KernelFolder) -> Reference:
    """Return where the reference is, and of which kind; a module gets a new seed.

    One that is compiled code, or a variant, is not there before it is built: where only inputs are
    drawn, as for a profile, this suffices; ``prepare_reference`` returns it whole.
    """
    reference = kernel_folder.kernel.reference
    if reference.recorded is not None:
        recorded = str(kernel_folder.folder / reference.recorded)
        return {"kind": "recorded", "file": recorded, "inputs": None}
    if reference.file is None or reference.is_compiled:
        return {
            "kind": "code",
            "code": {"kind": "c", "library": "", "entry": ""},
            "target": "cpu",
            "computes_in": None,
            "inputs": None,
        }
    file = str(kernel_folder.folder / reference.file)
    if reference.module is not None:
        return {
            "kind": "module",
            "file": file,
            "entry": reference.module,
            "seed": draw_module_seed(),
        }
    entry = str(reference.function)
    return {"kind": "python", "file": file, "entry": entry, "inputs": reference.inputs}


def make_tolerances(kernel_folder: KernelFolder) -> Tolerances:
    """Return the kernel's own tolerances, by dtype."""
    return {
        dtype: {
            "atol": tolerance.atol,
            "rtol": tolerance.rtol,
            "matched_ratio": tolerance.matched_ratio,
            "max_error": tolerance.max_error,
        }
        for dtype, tolerance in kernel_folder.kernel.tolerances.items()
    }


def format_sizes(sizes: Mapping[str, int]) -> str:
    """Return sizes as text: ``rows=3 cols=1000``."""
    return " ".join(f"{axis}={size}" for axis, size in sizes.items())


def working_set_bytes(kernel_folder: KernelFolder, workload: str) -> int:
    """Return the bytes of all inputs and outputs of a workload."""
    sizes = kernel_folder.kernel.workloads[workload]
    return _total_bytes(kernel_folder.kernel.inputs, sizes) + output_bytes(kernel_folder, workload)


def output_bytes(kernel_folder: KernelFolder, workload: str) -> int:
    """Return the bytes of all outputs of a workload."""
    sizes = kernel_folder.kernel.workloads[workload]
    return _total_bytes(kernel_folder.kernel.outputs, sizes)


def count_input_elements(kernel_folder: KernelFolder, sizes: Mapping[str, int]) -> int:
    """Return the elements of all inputs for some sizes."""
    return sum(math.prod(_concrete_shape(a, sizes)) for a in kernel_folder.kernel.inputs)


def _total_bytes(arrays: Iterable[Array], sizes: Mapping[str, int]) -> int:
    return sum(math.prod(_concrete_shape(a, sizes)) * DTYPE_BYTES[a.dtype] for a in arrays)
