"""Says what is wrong with one call of a batch."""

from __future__ import annotations

import time

from kernelkb.measure.worker.judge.buffers.buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, Tensors, may_be_unwritten
from kernelkb.measure.worker.shared.messages.judge_jobs import OutputComparison

_SLOW_COMPARISON_S = 0.5
"""At least 15 timed calls are compared: more would take as long as all the rest of a bench."""
_WHOLE_COMPARISONS = 2
"""Before a sample suffices: the first may take longer, as may one beside other load."""


def find_slot_fault(buffers: CaseBuffers, slot: int, outputs: Tensors) -> str | None:
    """Report what is wrong with a call: it changed memory that is not its own, or is incorrect.

    Args:
        buffers: Of the batch.
        slot: That of the call.
        outputs: Copies of what the call left.
    """
    tampering = buffers.find_tampering(slot)
    if tampering:
        return tampering
    comparison = compare_call(buffers, slot, outputs)
    if comparison["correct"]:
        return None
    if comparison["nan_count"]:
        return f"{comparison['nan_count']} elements were not written when the call had returned"
    return f"a timed call was wrong in {1 - comparison['matched_ratio']:.1%} of its elements"


def compare_call(buffers: CaseBuffers, slot: int, outputs: Tensors) -> OutputComparison:
    """Compare outputs, or a sample of their rows where comparing all of them took long.

    All elements are looked at for ones that were not written: then the whole outputs decide.

    Args:
        buffers: Of the call.
        slot: Its.
        outputs: Copies of what it left.
    """
    if _may_sample(buffers.case) and not may_be_unwritten(outputs):
        return buffers.compute_reference(slot, sampled=True).compare(outputs)
    start = time.monotonic()
    comparison = buffers.compute_reference(slot).compare(outputs)
    buffers.case.comparison_times.append(time.monotonic() - start)
    return comparison


def _may_sample(case: KernelCase) -> bool:
    """Return whether comparing is slow, and not only once, and what is not written is seen."""
    times = case.comparison_times
    if len(times) < _WHOLE_COMPARISONS or min(times) < _SLOW_COMPARISON_S:
        return False
    has_poison = not any(spec["starts_as"] for spec in case.output_specs)
    return has_poison and case.plan.has_distributions  # else the memory is too short for a sample
