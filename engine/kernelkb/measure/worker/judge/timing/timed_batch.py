"""What a batch of calls took and left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kernelkb.measure.worker.judge.buffers.output_marks import OutputMark
from kernelkb.measure.worker.judge.inputs.inputs import Tensors
from kernelkb.measure.worker.shared.messages.judge_jobs import Batch


def draw_none(_slots: Sequence[int]) -> list[int]:
    """Have no outputs returned; of the type ``DrawSlots``."""
    return []


class TimedBatch(NamedTuple):
    """A batch that was timed, while its outputs are in the buffers still."""

    batch: Batch
    slots: list[int]
    """In the order of the calls."""
    outputs: dict[int, Tensors]
    """Copies for the slots that were drawn."""
    marks: list[OutputMark] | None = None
    """Of all calls, where they were read when each had ended; None: they can be read still."""
    kept_outputs: Mapping[int, Tensors] = {}
    """Copies for all slots, where they were made when each call had ended."""
