"""Compares errors of candidate and torch: which precision is no less exact than the candidate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from kernelkb.measure.worker.shared.messages.specs import Precision

Errors = tuple[float, ...]
"""Of one or several calls: root mean square error of each output, relative to the output's own."""

_CLEAR_FACTOR = 2.0
"""A candidate whose errors are at most this many times torch's own is as exact as torch."""
_SAME_FACTOR = 2.0
"""One bit: what rounding inputs to TF32 gains over truncating them, as tensor cores do."""
_BELOW_TF32_FACTOR = 4.0
"""bf16 has 8 times the error of TF32. fp16 has the same, but not the range: where a candidate is as
exact as products of fp32's range, torch in fp16 is no equal. bf16 has that range."""
_MIN_ERROR = 2.0**-24
"""Rounding to fp32 alone; smaller errors are equal."""


def relative_rms(output: torch.Tensor, oracle: torch.Tensor) -> float:
    """Return the root mean square error, relative to the oracle's root mean square.

    Args:
        output: What was computed, of any dtype.
        oracle: What is correct, same shape; elements that are not finite are left out.

    Returns:
        0 for integers; infinity where an output is not finite and the oracle is.
    """
    errors = RelativeError()
    errors.add(output, oracle)
    return errors.ratio()


class RelativeError:
    """The same over several chunks."""

    def __init__(self) -> None:
        self._error = self._size = 0.0

    def add(self, output: torch.Tensor, oracle: torch.Tensor) -> None:
        """Add a chunk of both."""
        if not oracle.is_floating_point():
            return
        difference = output.to(oracle.dtype) - oracle
        is_finite = oracle.isfinite()
        if not bool(is_finite.all()):
            difference, oracle = difference[is_finite], oracle[is_finite]
        self._error = math.hypot(self._error, float(torch.linalg.vector_norm(difference)))
        self._size = math.hypot(self._size, float(torch.linalg.vector_norm(oracle)))

    def ratio(self) -> float:
        """Return what ``relative_rms`` does."""
        if self._error == 0.0:
            return 0.0
        return self._error / self._size if self._size and math.isfinite(self._error) else math.inf


def worst_errors(calls: Sequence[Errors]) -> Errors:
    """Return the largest error of each output over some calls; empty for no calls."""
    return tuple(max(column) for column in zip(*calls, strict=True))


def mean_errors(calls: Sequence[Errors]) -> Errors:
    """Return the root mean square error of each output over some calls; empty for no calls."""
    return tuple(
        math.sqrt(math.fsum(value * value for value in column) / len(column))
        for column in zip(*calls, strict=True)
    )


def is_less_exact(candidate: Errors, torch_errors: Errors, factor: float = _CLEAR_FACTOR) -> bool:
    """Return whether any output of the candidate has more than ``factor`` times torch's error."""
    return any(
        own > factor * max(other, _MIN_ERROR)
        for own, other in zip(candidate, torch_errors, strict=True)
    )


def choose_precisions(
    candidate: Errors, errors: Mapping[Precision, Errors], halves: Sequence[Precision]
) -> list[Precision]:
    """Return the precisions below torch's own at which torch is as exact as a candidate.

    Args:
        candidate: Its errors; it is less exact than torch at its own precision.
        errors: Torch's, by precision, most exact first.
        halves: Types of 16 bits, the preferred one first; one at most is returned, fp16 only where
            the candidate is clearly less exact than products of fewer digits make it.
    """
    admitted = [one for one, own in errors.items() if is_as_exact(own, candidate)]
    products = [own for one, own in errors.items() if one not in halves]
    if products and not is_less_exact(candidate, products[-1], _BELOW_TF32_FACTOR):
        admitted = [one for one in admitted if one != "fp16"]
    chosen = [one for one in halves if one in admitted][:1]
    return [one for one in admitted if one not in halves or one in chosen]


def is_as_exact(rival: Errors, candidate: Errors) -> bool:
    """Return whether every output of a rival is as exact as the candidate's, or more exact."""
    return all(
        error <= _SAME_FACTOR * max(own, _MIN_ERROR)
        for error, own in zip(rival, candidate, strict=True)
    )
