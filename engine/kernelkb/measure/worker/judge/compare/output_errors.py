"""Compares one output with the oracle, chunk by chunk, within limits."""

from __future__ import annotations

import math

import torch

from kernelkb.measure.worker.judge.compare.error_limits import ErrorLimits, off_count
from kernelkb.measure.worker.judge.inputs.chunks import larger, largest_of
from kernelkb.measure.worker.shared.messages.judge_jobs import OutputComparison

_FEW_OFF_ELEMENTS = 4
"""So many small elements may be off by relative error in any case: they may cancel out."""


class OutputErrors:
    """The errors of one output of a candidate."""

    def __init__(self, limits: ErrorLimits) -> None:
        self._limits = limits
        self._count = self._matched_count = self._off_count = self._nan_count = 0
        self._worst = 0.0
        self._is_float = True
        self._differs = False

    def add(
        self, output: torch.Tensor, oracle: torch.Tensor, native: torch.Tensor | None = None
    ) -> None:
        """Compare a chunk.

        Args:
            output: The candidate's.
            oracle: What is right; same shape.
            native: Of integers, what the reference returns in its own types.
        """
        self._count += oracle.numel()
        if oracle.is_floating_point():
            self._add_floats(output, oracle)
        else:
            self._add_integers(output, oracle, native)

    def _add_floats(self, output: torch.Tensor, oracle: torch.Tensor) -> None:
        limits = self._limits
        error = (output.to(oracle.dtype) - oracle).abs_()
        if not math.isfinite(float(error.sum())):
            equal = (oracle == output.to(oracle.dtype)) | (oracle.isnan() & output.isnan())
            error = torch.where(equal, 0.0, error)  # the difference of equal infinities is NaN
            self._nan_count += int((output.isnan() & ~oracle.isnan()).sum())
        matches = error <= limits.atol + limits.rtol * oracle.abs()
        self._matched_count += int(matches.count_nonzero())
        if limits.relative != math.inf:
            self._off_count += off_count(
                error, oracle, relative=limits.relative, smallest=limits.smallest
            )
        self._worst = larger(self._worst, largest_of(error))

    def _add_integers(
        self, output: torch.Tensor, oracle: torch.Tensor, native: torch.Tensor | None
    ) -> None:
        """Integers equal the oracle or the reference's own output, or are within limits."""
        limits = self._limits
        self._is_float = False
        equal = output == oracle.to(output.dtype)
        if native is not None:
            equal |= output == native.to(output.dtype)
        difference = (output.to(torch.float64) - oracle.to(torch.float64)).abs()
        error = torch.where(equal, 0.0, difference)
        within = equal | (error <= limits.atol + limits.rtol * oracle.to(torch.float64).abs())
        self._matched_count += int(within.count_nonzero())
        self._worst = larger(self._worst, largest_of(error))
        self._differs |= not bool(equal.all())

    def make_comparison(self) -> OutputComparison:
        """Return whether all chunks together are within the limits."""
        limits, worst = self._limits, self._worst
        ratio = self._matched_count / self._count if self._count else 1.0
        is_close = ratio >= limits.matched_ratio and worst <= limits.max_error
        if not self._is_float:
            # Large integers may differ although their fp64 values are equal: report 1, not 0.
            worst = max(worst, float(self._differs))
        off = self._off_share()
        is_finite = math.isfinite(worst)
        return {
            "correct": is_finite and is_close and off <= limits.off_share,
            "max_abs_error": worst if is_finite else None,
            "matched_ratio": min(ratio, 1.0 - off) if off > limits.off_share else ratio,
            "nan_count": self._nan_count,
            "reference_error": limits.reference_error,
        }

    def _off_share(self) -> float:
        """Return the share of elements off by relative error; 0 if there are too few to count."""
        if not self._is_float or self._count < _FEW_OFF_ELEMENTS / self._limits.off_share:
            return 0.0
        return self._off_count / self._count if self._count else 0.0


class WrongElements:
    """Elements of one output that are wrong, and by how much.

    Attributes:
        total: All elements, right ones too.
    """

    def __init__(self) -> None:
        self.total = self._count = 0
        self._worst = 0.0

    def add(self, is_wrong: torch.Tensor, error: torch.Tensor) -> None:
        """Add a chunk: a mask, and absolute errors of its shape."""
        self.total += is_wrong.numel()
        self._count += int(is_wrong.count_nonzero())
        self._worst = larger(self._worst, largest_of(error[is_wrong]))

    def make_comparison(self, allowed_share: float, nan_count: int) -> OutputComparison:
        """Return whether no more than a share of all elements is wrong."""
        share = self._count / self.total if self.total else 0.0
        return {
            "correct": share <= allowed_share,
            "max_abs_error": self._worst if math.isfinite(self._worst) else None,
            "matched_ratio": 1.0 - share,
            "nan_count": nan_count,
            "reference_error": 0.0,
        }
