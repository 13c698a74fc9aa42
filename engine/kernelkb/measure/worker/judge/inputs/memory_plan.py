"""Decides how a case is judged in the memory that is free, and splits arrays into chunks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from kernelkb.measure.worker.shared.failures import UnsupportedHost
from kernelkb.measure.worker.shared.memory import array_bytes
from kernelkb.measure.worker.shared.messages.specs import ArraySpec, CaseSpec

CHUNK_ELEMENTS = 2**24
"""Larger arrays are compared chunk by chunk: a temporary in fp64 is 128 MiB."""

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
    "compared while timing, drawn when the call had ended, and in all but the first on hidden "
    "inputs; the check compared all rows of the task's own"
)
NO_DISTRIBUTIONS_NOTE = "hidden inputs left out: all of the same size (the memory does not suffice)"


def split_alike(*arrays: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield views of the same elements of each array, at most ``CHUNK_ELEMENTS`` of each.

    Args:
        arrays: Of one shape; they need not be contiguous. Small ones are yielded as they are.
    """
    first = arrays[0]
    if first.numel() <= CHUNK_ELEMENTS:
        yield arrays
        return
    rows = first.shape[0]
    step = max(1, CHUNK_ELEMENTS * rows // first.numel())
    for start in range(0, rows, step):
        parts = tuple(array[start : start + step] for array in arrays)
        if parts[0].numel() > CHUNK_ELEMENTS:
            yield from split_alike(*(part[0] for part in parts))
        else:
            yield parts


def split_flat(array: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield a contiguous array as flat views of at most ``CHUNK_ELEMENTS``; an empty one as one."""
    yield from array.view(-1).split(CHUNK_ELEMENTS)


class MeanSquare:
    """The mean of squares over several chunks."""

    def __init__(self) -> None:
        self._means: list[tuple[float, int]] = []

    def add(self, values: torch.Tensor) -> None:
        """Add the elements of a chunk; an empty one adds nothing."""
        if values.numel():
            self._means.append((float(widen(values).square().mean()), values.numel()))

    def root(self) -> float:
        """Return the root of the mean; 0 without elements."""
        if len(self._means) == 1:
            return math.sqrt(self._means[0][0])
        count = sum(count for _, count in self._means)
        return math.sqrt(sum(mean * n for mean, n in self._means) / count) if count else 0.0


def widen(values: torch.Tensor) -> torch.Tensor:
    """Return narrow numbers in fp64: the square of 256 is infinite in fp16, of 2e19 in bf16."""
    return values.double() if values.element_size() < torch.float32.itemsize else values


def largest_of(values: torch.Tensor) -> float:
    """Return the largest element; 0 of an empty tensor, NaN if it has any."""
    return float(values.max()) if values.numel() else 0.0


def larger(left: float, right: float) -> float:
    """Return the larger number; NaN if one of them is."""
    return left if math.isnan(left) or left >= right else right


def root_mean_square(values: torch.Tensor) -> float:
    """Return the root mean square of a tensor; 0 of an empty one."""
    return float(widen(values).square().mean().sqrt()) if values.numel() else 0.0


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
