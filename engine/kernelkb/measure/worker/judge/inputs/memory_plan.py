"""Decides how a case is judged in the memory that is free, and says what is given up for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from kernelkb.measure.worker.shared.failures import UnsupportedHost
from kernelkb.measure.worker.shared.memory import array_bytes
from kernelkb.measure.worker.shared.messages.specs import ArraySpec, CaseSpec

_LARGE_BYTES = 2**30
"""Inputs and outputs from which on a case is judged in pieces, however much memory is free."""
_PLENTY = 18
"""Times inputs and outputs that judging takes at most where nothing is done to save memory."""
_ORACLE_BYTES = 8
_WITHOUT_ORACLE = 3
"""Times inputs and outputs: the shared arrays, inputs drawn again, and what the reference and the
candidate return."""
_WITH_FP32_ORACLE = 4
_WITH_DISTRIBUTIONS = 3
_LEAST = 2
"""The same: the shared arrays, inputs drawn again, and a copy of the outputs."""

ONE_SLOT_NOTE = (
    "to save memory there was one copy of the arrays: whether a call writes to the arrays of "
    "another one was not looked at"
)
FP32_NOTE = "to save memory the reference was computed in fp32 instead of fp64"
PIECES_NOTE = (
    "to save memory the reference was run on some rows at a time; that this changes nothing "
    "was tested on rows drawn at random"
)
SAMPLED_NOTE = (
    "to save time a quarter of the rows was compared in all but the first two calls that were "
    "compared while timing, drawn when the call had ended; the check compared all"
)
NO_DISTRIBUTIONS_NOTE = "hidden inputs left out: all of the same size (the memory does not suffice)"


class MemoryPlan(NamedTuple):
    """How a case is judged."""

    in_pieces: bool = False
    """Whether to save memory: one slot, no copies that can be drawn again, and a reference that is
    run on some rows at a time where its rows do not depend on each other."""
    fits_whole: bool = True
    """Whether a reference fits that has to be run on all rows at once."""
    is_oracle_wide: bool = True
    """Whether the oracle of such a reference is computed in fp64."""
    has_distributions: bool = True
    """Whether hidden distributions are checked."""

    size: int = 0
    free_bytes: int = 0

    @property
    def slot_count(self) -> int:
        """Slots of a check."""
        return 1 if self.in_pieces else 2

    @property
    def oracle_dtype(self) -> torch.dtype:
        """The dtype of an oracle that is computed on all rows at once."""
        return torch.float64 if self.is_oracle_wide else torch.float32

    def require_room_for_all_rows(self) -> None:
        """Raise UnsupportedHost if a reference does not fit that is run on all rows at once."""
        if not self.fits_whole:
            raise make_memory_gap(_WITH_FP32_ORACLE * self.size, self.free_bytes)


EVERYTHING = MemoryPlan()
"""Nothing is given up."""


def plan_memory(arrays: Sequence[ArraySpec], free_bytes: int) -> MemoryPlan:
    """Return how to judge a case.

    Args:
        arrays: Its inputs and outputs.
        free_bytes: What the judge may take, before it has allocated anything for the case.

    Raises:
        UnsupportedHost: Not even the arrays and a copy of them fit.
    """
    size = sum(map(array_bytes, arrays))
    if size <= _LARGE_BYTES and free_bytes >= _PLENTY * size:
        return EVERYTHING
    if free_bytes < _LEAST * size:
        raise make_memory_gap(_LEAST * size, free_bytes)
    oracle_bytes = _ORACLE_BYTES * sum(math.prod(array["shape"]) for array in arrays)
    return MemoryPlan(
        in_pieces=True,
        fits_whole=free_bytes >= _WITH_FP32_ORACLE * size,
        is_oracle_wide=free_bytes >= _WITHOUT_ORACLE * size + oracle_bytes,
        has_distributions=free_bytes >= _WITH_DISTRIBUTIONS * size,
        size=size,
        free_bytes=free_bytes,
    )


def make_memory_gap(needed_bytes: int, free_bytes: int) -> UnsupportedHost:
    """Return the error of a case that cannot be judged in the memory that is free."""
    return UnsupportedHost(
        f"judging takes {needed_bytes / 2**30:.2g} GiB of memory, and {free_bytes / 2**30:.2g} GiB "
        "are free",
        "name a smaller --workload, or end other processes",
    )


def plan_case_memory(case_spec: CaseSpec, free_bytes: int | None, runner_count: int) -> MemoryPlan:
    """Return how to judge a case beside processes that allocate its outputs once each.

    Args:
        case_spec: The case.
        free_bytes: What is free, or all that is to be used; None: what the GPU has free.
        runner_count: Processes that call candidate or baselines.

    Raises:
        UnsupportedHost: Not even the arrays and a copy of them fit.
    """
    inputs = [spec for spec in case_spec["inputs"] if "value" not in spec]
    outputs = case_spec["outputs"]
    if free_bytes is None:
        free_bytes = int(torch.cuda.mem_get_info()[0])
    own_bytes = runner_count * sum(map(array_bytes, outputs))
    return plan_memory([*inputs, *outputs], max(0, free_bytes - own_bytes))
