"""Says what is wrong with one call of a batch."""

from __future__ import annotations

from kernelkb.measure.worker.judge.buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs import Tensors


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
    comparison = buffers.compute_reference(slot).compare(outputs)
    if comparison["correct"]:
        return None
    if comparison["nan_count"]:
        return f"{comparison['nan_count']} elements were not written when the call had returned"
    return f"a timed call was wrong in {1 - comparison['matched_ratio']:.1%} of its elements"
