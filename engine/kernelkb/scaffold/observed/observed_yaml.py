"""The kernel.yaml of an observed operation: nothing is left to fill in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kernelkb.loading.kernel_files import dump_kernel_yaml
from kernelkb.scaffold.observed.observed_code import ENTRY
from kernelkb.scaffold.observed.observed_inputs import make_fill, needs_input_function
from kernelkb.scaffold.observed.observed_shapes import ArrayPlan, NumberPlan, ObservedPlan

RECORDED_FILE = "recorded.safetensors"
VARIANT_FILE = "observed.py"


class ObservedKernel(NamedTuple):
    """What a kernel.yaml is written from."""

    name: str
    operation: str
    """As it can be named: ``module:function``."""
    command: str
    """The program that was observed."""
    kernels: tuple[str, ...]
    """Triton kernels that it launches."""
    plan: ObservedPlan
    reference: Literal["code", "recorded", "variant"]
    """``code`` is reference.py; ``variant``: what the observed code writes is right."""


def draft_observed_yaml(kernel: ObservedKernel) -> str:
    """Return the text of a kernel.yaml whose workloads and inputs are those of real calls."""
    plan = kernel.plan
    fields = {
        "id": kernel.name,
        "title": f"{kernel.operation} as {kernel.command} calls it",
        "axes": list(plan.axes),
        "workloads": plan.workloads,
        "default_workload": {
            target: next(iter(plan.workloads)) for target in _list_targets(kernel)
        },
        "inputs": [
            *(_make_input(array, kernel) for array in plan.inputs),
            *(_make_number(number) for number in plan.numbers if not number.is_baked),
        ],
        "outputs": [_make_array(array) for array in plan.outputs],
        "reference": _make_reference(kernel),
        "entry": ENTRY,
        "variants": [_make_variant(kernel, target) for target in _list_targets(kernel)],
    }
    return _write_comments(kernel) + dump_kernel_yaml(fields)


def _list_targets(kernel: ObservedKernel) -> Sequence[str]:
    """Return where the observed code can run: interpreted Triton also runs on a GPU."""
    targets = [kernel.plan.target]
    return [*targets, "cuda"] if kernel.kernels and "cuda" not in targets else targets


def _make_variant(kernel: ObservedKernel, target: str) -> dict[str, Any]:
    is_triton = bool(kernel.kernels) and target == "cuda"
    return {
        "id": "observed",
        "target": target,
        "language": "triton" if is_triton else "python",
        "source": VARIANT_FILE,
        "returns": True,
        **({"kernels": list(kernel.kernels)} if is_triton else {}),
        "summary": "the code that the program runs",
    }


def _write_comments(kernel: ObservedKernel) -> str:
    lines = [f"# Observed by kb init in: {kernel.command}", "# Calls of each workload:"]
    for name, call in zip(kernel.plan.workloads, kernel.plan.calls, strict=True):
        lines.append(f"#   {name}: {call['count']}{_describe_launch(call)}")
    if kernel.reference == "variant":
        lines.append(
            "# Assumed: what observed.py computes as it stands is taken as right, unchecked."
        )
    lines += [
        "# cost is left out: what any correct kernel must read and write depends on the operation.",
        '# cost: {bytes: "...", flops: "..."}',
    ]
    return "\n".join(lines) + "\n"


def _describe_launch(call: Mapping[str, Any]) -> str:
    launch = call["launch"]
    if not launch:
        return ""
    options = "".join(
        f", {name}={value}"
        for name, value in {**launch["constants"], **launch["options"]}.items()
        if value is not None
    )
    return f", grid {tuple(launch['grid'])}{options}"


def _make_array(array: ArrayPlan) -> dict[str, Any]:
    return {"name": array.name, "shape": list(array.shape), "dtype": array.dtype}


def _make_input(array: ArrayPlan, kernel: ObservedKernel) -> dict[str, Any]:
    own = {"fill": "normal"}
    if kernel.reference != "recorded" and not needs_input_function(kernel.plan):
        own = make_fill(array.recipe, array.dtype) or own
    elif kernel.reference == "variant":  # which has no file with a function for the inputs
        own = make_fill(array.recipe, array.dtype) or _choose_fill(array)
    return {**_make_array(array), **own}


def _choose_fill(array: ArrayPlan) -> dict[str, Any]:
    if array.dtype.startswith(("float", "bfloat")):
        return {"fill": "normal"}
    high = array.recipe.get("high", array.recipe.get("value", 1))
    return {"fill": "integers", "scale": float(high + 1)}


def _make_number(number: NumberPlan) -> dict[str, Any]:
    dtype = "float64" if isinstance(number.value, float) else "int64"
    return {"name": number.name, "dtype": dtype, "value": number.value}


def _make_reference(kernel: ObservedKernel) -> dict[str, Any]:
    if kernel.reference == "recorded":
        return {"recorded": RECORDED_FILE}
    if kernel.reference == "variant":
        return {"variant": "observed"}
    made: dict[str, Any] = {"file": "reference.py", "function": ENTRY}
    return {**made, "inputs": "make_inputs"} if needs_input_function(kernel.plan) else made
