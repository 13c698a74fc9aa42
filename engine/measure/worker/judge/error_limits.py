"""How far an output may be off: limits from the reference's own error and the dtype's precision."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from kernelkb.measure.worker.shared.messages.specs import ToleranceSpec

_EPSILON_ALLOWANCE = 32.0
"""Units in the last place (ulps) of the output's dtype that a correct kernel may be off by summing
in another order, on top of the reference's own error."""
_NARROW_EPSILON_ALLOWANCE = 4.0
"""The same for types of 16 bits and fewer: kernels accumulate in fp32 and round once."""
_NARROW_DTYPES = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
_REFERENCE_ERROR_FACTOR = 8.0
"""How many times the reference's own error a correct kernel's may be."""
_NARROW_ORACLE_FACTOR = 8.0
"""Factor on the ulp allowance where memory allows no wider oracle, so that the reference's own
error is not visible."""
_MATCHED_RATIO = 0.999
"""Share of elements that must be within the limits."""
_MAX_ROUNDED_SHARE = 0.05
"""Share of integer elements that may differ where rounding decides them."""


class ErrorLimits(NamedTuple):
    """How far one output may be off; fields as in ``ToleranceSpec``."""

    atol: float
    rtol: float
    matched_ratio: float
    max_error: float
    reference_error: float
    """Largest error of the reference itself, computed in the kernel's own dtype."""


def error_limits(
    dtype: str,
    oracle: torch.Tensor,
    native: torch.Tensor,
    tolerance: ToleranceSpec | None,
    sensitivity: float = 0.0,
) -> ErrorLimits:
    """Return how far one output may be off.

    A kernel's own tolerance wins. Otherwise the limits are 8 times the reference's own error plus
    some ulps of the outputs, or of the inputs (``sensitivity``). ``atol`` follows the outputs' root
    mean square, so that an output of zeros never passes.

    Args:
        dtype: Of the kernel's output.
        oracle: The output in the oracle's dtype.
        native: The output as the reference computes it in the kernel's dtypes; same shape.
        tolerance: The kernel's own tolerance for this dtype.
        sensitivity: Change of the output for 1-ulp changes of the inputs, in the output's unit.
    """
    if not oracle.is_floating_point():
        return _integer_limits(oracle, native, tolerance)
    error, oracle = _finite_error(native, oracle)
    reference_error = float(error.max()) if error.numel() else 0.0
    if tolerance is not None:
        return ErrorLimits(**tolerance, reference_error=reference_error)
    ulp = torch.finfo(getattr(torch, dtype)).eps
    if getattr(torch, dtype) == oracle.dtype:
        ulp *= _NARROW_ORACLE_FACTOR
    ulps = _NARROW_EPSILON_ALLOWANCE if dtype in _NARROW_DTYPES else _EPSILON_ALLOWANCE
    largest = float(oracle.abs().max()) if oracle.numel() else 0.0
    atol = ulps * max(ulp * _rms(oracle), sensitivity) + _REFERENCE_ERROR_FACTOR * _rms(error)
    max_error = _REFERENCE_ERROR_FACTOR * reference_error + ulps * ulp * largest
    return ErrorLimits(atol, ulps * ulp, _MATCHED_RATIO, max(max_error, atol), reference_error)


def _finite_error(native: torch.Tensor, oracle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return |native − oracle| and the oracle, where both are finite."""
    error = (native.to(oracle.dtype) - oracle).abs_()
    if math.isfinite(float(error.sum())):
        return error, oracle
    is_finite = oracle.isfinite() & error.isfinite()
    return error[is_finite], oracle[is_finite]


def _rms(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt()) if values.numel() else 0.0


def _integer_limits(
    oracle: torch.Tensor, native: torch.Tensor, tolerance: ToleranceSpec | None
) -> ErrorLimits:
    """Return limits for integers: equality, unless rounding decides some of the reference's own.

    Then 8 times as many may differ, up to 5 %, by at most as much.
    """
    error = (native.to(torch.float64) - oracle.to(torch.float64)).abs()
    reference_error = float(error.max()) if error.numel() else 0.0
    if tolerance is not None:
        return ErrorLimits(**tolerance, reference_error=reference_error)
    rounded_share = _REFERENCE_ERROR_FACTOR * (1.0 - true_share(error == 0))
    return ErrorLimits(
        atol=-1.0,  # an element that differs never matches
        rtol=0.0,
        matched_ratio=1.0 - min(_MAX_ROUNDED_SHARE, rounded_share),
        max_error=reference_error,
        reference_error=reference_error,
    )


def true_share(mask: torch.Tensor) -> float:
    """Return the share of true elements of a boolean tensor, 0 to 1; 1 of an empty one."""
    return int(mask.count_nonzero()) / mask.numel() if mask.numel() else 1.0
