"""Whether a reference takes all values that an integer input may have, as an index of a row."""

from __future__ import annotations

from kernelkb.measure.worker.judge.inputs.inputs import KernelCase
from kernelkb.measure.worker.shared.messages.specs import CaseSpec, InputSpec, Reference


def takes_all_integers(reference: Reference, case_spec: CaseSpec) -> bool:
    """Return whether the reference runs with the least and the largest value of integer inputs.

    It runs on a CPU: on a GPU an index outside of its array would end the judge.
    """
    case = KernelCase("cpu", reference, case_spec)
    inputs = case.make_inputs(0)
    arrays = [
        (array, int(spec["scale"]) - 1)
        for array, spec in zip(inputs, case.input_specs, strict=True)
        if is_drawn_integer(spec)
    ]
    for pick in (min, max):
        for array, largest in arrays:
            array.fill_(pick(0, largest))
        try:
            case.run_reference(inputs, None)
        except Exception:  # the reference's own: any size may be impossible
            return False
    return True


def is_drawn_integer(spec: InputSpec) -> bool:
    """Return whether an input holds random integers."""
    return spec["fill"] == "integers" and spec["dtype"].startswith(("int", "uint"))
