"""How far an output may be off, and which elements are off by more."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from kernelkb.measure.worker.judge.inputs.memory_plan import MeanSquare, larger, largest_of
from kernelkb.measure.worker.shared.messages.jobs import OutputComparison
from kernelkb.measure.worker.shared.messages.specs import ToleranceSpec

_EPSILON_ALLOWANCE = 32.0
"""Units in the last place (ulps) of the output's dtype that a correct kernel may be off by summing
in another order, on top of the reference's own error."""
_NARROW_EPSILON_ALLOWANCE = 4.0
"""The same for types of 16 bits and fewer: kernels accumulate in fp32 and round once."""
_FLOAT8_EPSILON_ALLOWANCE = 1.0
"""The same for float8, of which 4 ulps are half of a value: zeros would pass."""
_NARROW_DTYPES = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
_REFERENCE_ERROR_FACTOR = 8.0
"""How many times the reference's own error a correct kernel's may be."""
_NARROW_ORACLE_FACTOR = 8.0
"""Factor on the ulp allowance where memory allows no wider oracle, so that the reference's own
error is not visible."""
_MATCHED_RATIO = 0.999
"""Share of elements that must be within the limits."""
_CONVOLUTION_FACTOR = 64.0
"""As ``_REFERENCE_ERROR_FACTOR`` where the reference convolves in fp32: Winograd's F(4x4, 3x3), as
cuDNN and oneDNN choose it, loses a digit more than a direct sum."""
_RELATIVE_ERROR = 0.01
"""Above this share of its own value an element is off by relative error, however small it is."""
_RELATIVE_ULPS = 8.0
"""The same in ulps, for types of few digits."""
_OFF_SHARE = 0.02
"""Share of elements that may be off by relative error, besides what the reference is itself."""
_OFF_FACTOR = 4.0
"""How many times the reference's own share may be off."""
_MAX_ROUNDED_SHARE = 0.05
"""Share of integer elements that may differ where rounding decides them."""
_FEW_OFF_ELEMENTS = 4
"""So many small elements may be off by relative error in any case: they may cancel out."""


class ErrorLimits(NamedTuple):
    """How far one output may be off; fields as in ``ToleranceSpec``."""

    atol: float
    rtol: float
    matched_ratio: float
    max_error: float
    reference_error: float
    """Largest error of the reference itself, computed in the kernel's own dtype."""
    relative: float = math.inf
    """Largest error of an element as a share of its value; infinite: not asked for."""
    off_share: float = 1.0
    """Share of elements that may exceed ``relative``."""
    smallest: float = 0.0
    """Elements up to this absolute value may exceed it too: they may be flushed to zero."""


class ReferenceErrors:
    """The reference's own errors in one output, collected chunk by chunk."""

    def __init__(self, dtype: str) -> None:
        """Collect nothing yet.

        Args:
            dtype: Of the kernel's output.
        """
        self._dtype = dtype
        self._relative = _relative_limit(dtype) if getattr(torch, dtype).is_floating_point else None
        self._square_error, self._square = MeanSquare(), MeanSquare()
        self._worst = self._largest = 0.0
        self._count = self._off_count = self._equal_count = 0
        self._is_float = self._is_narrow = False

    def add(self, oracle: torch.Tensor, native: torch.Tensor) -> None:
        """Add a chunk.

        Args:
            oracle: The output in the oracle's dtype.
            native: The output as the reference computes it in the kernel's dtypes; same shape.
        """
        self._is_float = oracle.is_floating_point()
        if not self._is_float:
            error = (native.to(torch.float64) - oracle.to(torch.float64)).abs()
            self._worst = larger(self._worst, largest_of(error))
            self._count += error.numel()
            self._equal_count += int((error == 0).count_nonzero())
            return
        self._is_narrow = getattr(torch, self._dtype) == oracle.dtype
        error, oracle = _finite_error(native, oracle)
        self._worst = larger(self._worst, largest_of(error))
        self._largest = larger(self._largest, largest_of(oracle.abs()))
        self._square_error.add(error)
        self._square.add(oracle)
        self._count += error.numel()
        if self._relative is not None:
            self._off_count += off_count(error, oracle, **self._relative)

    def make_limits(
        self,
        tolerance: ToleranceSpec | None,
        sensitivity: float = 0.0,
        *,
        convolves: bool = False,
        rounds: bool = False,
    ) -> ErrorLimits:
        """Return how far the output may be off.

        A kernel's own tolerance wins. Otherwise the limits are 8 times the reference's own error
        plus some ulps of the outputs, or of the inputs (``sensitivity``). ``atol`` follows the
        outputs' root mean square, which few elements may rule: most must also be right relative to
        their own value.

        Args:
            tolerance: The kernel's own tolerance for this dtype.
            sensitivity: Change of the output for 1-ulp changes of the inputs, in the output's unit.
            convolves: Whether Winograd's error is allowed.
            rounds: Whether numbers with a fraction are rounded to integers.
        """
        if tolerance is not None:
            return ErrorLimits(**tolerance, reference_error=self._worst)
        if not self._is_float:
            return self._make_integer_limits(rounds=rounds)
        dtype = self._dtype
        ulp = torch.finfo(getattr(torch, dtype)).eps
        ulp *= _NARROW_ORACLE_FACTOR if self._is_narrow else 1.0
        ulps = _NARROW_EPSILON_ALLOWANCE if dtype in _NARROW_DTYPES else _EPSILON_ALLOWANCE
        ulps = _FLOAT8_EPSILON_ALLOWANCE if dtype.startswith("float8") else ulps
        is_winograd = convolves and dtype == "float32"
        factor = _CONVOLUTION_FACTOR if is_winograd else _REFERENCE_ERROR_FACTOR
        atol = ulps * max(ulp * self._square.root(), sensitivity)
        atol += factor * self._square_error.root()
        max_error = factor * self._worst + ulps * ulp * self._largest
        limits = (atol, ulps * ulp, _MATCHED_RATIO, max(max_error, atol), self._worst)
        own_share = self._off_count / self._count if self._count else 0.0
        most_off = min(1.0, _OFF_SHARE + _OFF_FACTOR * own_share)
        return ErrorLimits(*limits, **(self._relative or {}), off_share=most_off)

    def _make_integer_limits(self, *, rounds: bool) -> ErrorLimits:
        """Return limits for integers: equality, unless rounding decides some of the reference's.

        Then 8 times as many may differ, up to 5 %, by at most as much. Where numbers are rounded,
        a few may be one off in any case: x / s and x (1 / s) differ in the last digit.
        """
        equal_share = self._equal_count / self._count if self._count else 1.0
        rounded_share = _REFERENCE_ERROR_FACTOR * (1.0 - equal_share)
        if rounds and self._count:
            rounded_share = max(rounded_share, _FEW_OFF_ELEMENTS / self._count)
        return ErrorLimits(
            atol=-1.0,  # an element that differs never matches
            rtol=0.0,
            matched_ratio=1.0 - min(_MAX_ROUNDED_SHARE, rounded_share),
            max_error=max(self._worst, float(rounds)),
            reference_error=self._worst,
        )


def _relative_limit(dtype: str) -> dict[str, float]:
    """Return the fields of ErrorLimits about the relative error of one element."""
    precision = torch.finfo(getattr(torch, dtype))
    # Below, a type has fewer digits, or none on a device that flushes them to zero.
    smallest = float(precision.tiny) * (1 if dtype in _NARROW_DTYPES else 1 / precision.eps)
    return {"relative": max(_RELATIVE_ERROR, _RELATIVE_ULPS * precision.eps), "smallest": smallest}


def off_count(
    error: torch.Tensor, oracle: torch.Tensor, *, relative: float, smallest: float
) -> int:
    """Return the number of elements whose relative error is too large.

    Args:
        error: Absolute errors, any shape.
        oracle: What is right; same shape.
        relative: The largest error, as a share of the value.
        smallest: Elements up to this absolute value count as right.
    """
    size = oracle.abs()
    # Negated: an error that is NaN is too large.
    return int(((size > smallest) & ~(error <= relative * size)).count_nonzero())


def _finite_error(native: torch.Tensor, oracle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return |native − oracle| and the oracle, where both are finite."""
    error = (native.to(oracle.dtype) - oracle).abs_()
    if math.isfinite(float(error.sum())):
        return error, oracle
    is_finite = oracle.isfinite() & error.isfinite()
    return error[is_finite], oracle[is_finite]


def find_wrong(
    limits: ErrorLimits,
    output: torch.Tensor,
    oracle: torch.Tensor,
    native: torch.Tensor | None,
    *,
    is_relative: bool,
) -> torch.Tensor:
    """Return which elements of an output are not within limits, as ``OutputErrors`` counts them.

    Args:
        limits: How far they may be off.
        output: The candidate's.
        oracle: What is right; same shape.
        native: Of integers, what the reference returns in its own types.
        is_relative: Count what is off by relative error, too.
    """
    value = output.to(oracle.dtype)
    equal = value == oracle
    if oracle.is_floating_point():
        equal |= oracle.isnan() & value.isnan()
    if not oracle.is_floating_point():
        return ~equal if native is None else ~equal & (output != native.to(output.dtype))
    equal |= _overflow_alike(limits, output, oracle)
    error = torch.where(equal, 0.0, (value - oracle).abs())
    within = (error <= limits.atol + limits.rtol * oracle.abs()) & error.isfinite()
    wrong = ~equal & ~within
    if is_relative:
        wrong |= (oracle.abs() > limits.smallest) & ~(error <= limits.relative * oracle.abs())
    return wrong


def find_alike_overflow(
    output: torch.Tensor, oracle: torch.Tensor, allowed: torch.Tensor
) -> torch.Tensor:
    """Return where one is infinite and the other so large that an allowed error overflows, too.

    65,519.9 is the largest half and 65,520 infinity: sums in another order give either.

    Args:
        output: The candidate's, in its own dtype.
        oracle: What is right; same shape.
        allowed: Absolute error of each element that passes; same shape.
    """
    if not output.is_floating_point():
        return torch.zeros_like(oracle, dtype=torch.bool)
    largest, value = torch.finfo(output.dtype).max, output.to(oracle.dtype)
    reaches = torch.minimum(value.abs(), oracle.abs()) + allowed >= largest
    return reaches & (value.isinf() ^ oracle.isinf()) & (value.sign() == oracle.sign())


def _overflow_alike(
    limits: ErrorLimits, output: torch.Tensor, oracle: torch.Tensor
) -> torch.Tensor:
    smaller = torch.minimum(output.to(oracle.dtype).abs(), oracle.abs())
    return find_alike_overflow(output, oracle, limits.atol + limits.rtol * smaller)


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
            equal |= _overflow_alike(limits, output, oracle)
            error = torch.where(equal, 0.0, error)  # the difference of equal infinities is NaN
            self._nan_count += int((output.isnan() & ~oracle.isnan()).sum())
        # A limit of infinity or NaN may be NaN itself.
        matches = (error == 0) | (error <= limits.atol + limits.rtol * oracle.abs())
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
