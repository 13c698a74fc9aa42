"""Splits arrays of one shape into chunks, so that temporaries of a comparison stay small."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

CHUNK_ELEMENTS = 2**24
"""Larger arrays are compared chunk by chunk: a temporary in fp64 is 128 MiB."""


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
            self._means.append((float(values.square().mean()), values.numel()))

    def root(self) -> float:
        """Return the root of the mean; 0 without elements."""
        if len(self._means) == 1:
            return math.sqrt(self._means[0][0])
        count = sum(count for _, count in self._means)
        return math.sqrt(sum(mean * n for mean, n in self._means) / count) if count else 0.0


def largest_of(values: torch.Tensor) -> float:
    """Return the largest element; 0 of an empty tensor, NaN if it has any."""
    return float(values.max()) if values.numel() else 0.0


def larger(left: float, right: float) -> float:
    """Return the larger number; NaN if one of them is."""
    return left if math.isnan(left) or left >= right else right


def root_mean_square(values: torch.Tensor) -> float:
    """Return the root mean square of a tensor; 0 of an empty one."""
    return float(values.square().mean().sqrt()) if values.numel() else 0.0
