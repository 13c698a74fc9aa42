"""How far elements may be off that a reference computes for inputs of a hidden distribution.

All of this is done for some elements at a time, so that memory need not hold it for all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from kernelkb.measure.worker.shared.messages.specs import ToleranceSpec

RELATIVE = 0.01
_GROSS_FACTOR = 10.0
"""An element that is off by so much more than may be is wrong, even if it is the only one."""
_ULPS = 32.0
_REFERENCE_FACTOR = 8.0


class HiddenLimits(NamedTuple):
    """How far one output may be off, besides what is known of each element."""

    base: float
    """Absolute error that passes anywhere."""
    worst_noise: float
    """Largest part of an element's error that is the reference's own or of the inputs' last digit;
    infinite where outputs jump."""


class Chunk(NamedTuple):
    """Some elements of one output."""

    native: torch.Tensor
    """As the reference computes them."""
    oracle: torch.Tensor
    perturbed: torch.Tensor
    """As the oracle, for inputs that differ in their last digit."""
    ignoring_nan: torch.Tensor | None
    """As the reference computes them where maxima and minima ignore NaN."""
    nan_as_one: torch.Tensor | None
    """As the reference computes them from 1 in place of NaN."""
    nan_as_minus_one: torch.Tensor | None
    output: torch.Tensor | None
    """The candidate's."""


class ChunkLimits(NamedTuple):
    """How far the elements of a chunk may be off."""

    defined: torch.Tensor
    """Where the reference is finite, in its own type and as the oracle."""
    error: torch.Tensor
    """What a correct kernel may be off by, in the unit of the output."""
    gross: torch.Tensor
    """What no element may be off by."""
    noise: torch.Tensor
    """Part of ``error`` that is the reference's own, and that of the inputs' last digit."""


def find_defined(chunk: Chunk) -> torch.Tensor:
    """Return where the reference is finite, in its own type and as the oracle."""
    return chunk.native.to(chunk.oracle.dtype).isfinite() & chunk.oracle.isfinite()


def find_own_error(chunk: Chunk) -> torch.Tensor:
    """Return the reference's own error, 0 where it is undefined."""
    difference = (chunk.native.to(chunk.oracle.dtype) - chunk.oracle).abs()
    return torch.where(find_defined(chunk), difference, 0.0)


def find_relative(chunk: Chunk) -> float:
    """Return the relative error that passes."""
    return max(RELATIVE, 8 * float(torch.finfo(chunk.native.dtype).eps))


def get_value(chunk: Chunk) -> torch.Tensor:
    """Return the candidate's elements in the oracle's dtype."""
    if chunk.output is None:
        raise ValueError("nothing is compared")
    return chunk.output.to(chunk.oracle.dtype)


def find_error(chunk: Chunk, defined: torch.Tensor, *, is_tiny: bool) -> torch.Tensor:
    """Return the candidate's error, 0 where the reference is undefined.

    Args:
        chunk: With the candidate's elements.
        defined: See ``find_defined``.
        is_tiny: Whether inputs are. Then outputs that are nearer to zero have no error: a candidate
            may add an epsilon to a divisor that the reference divides by as it is.
    """
    value = get_value(chunk)
    error = torch.where(defined, (value - chunk.oracle).abs(), 0.0)
    if not is_tiny:
        return error
    is_between = (value * chunk.oracle >= 0) & (value.abs() <= chunk.oracle.abs())
    return torch.where(is_between, 0.0, error)


def find_nan_followers(chunk: Chunk, base: float) -> torch.Tensor:
    """Return where an output follows an input that is NaN: not through the zeros of a mask."""
    one, other = chunk.nan_as_one, chunk.nan_as_minus_one
    if one is None or other is None:
        return torch.zeros_like(chunk.native, dtype=torch.bool)
    one, other = one.to(chunk.oracle.dtype), other.to(chunk.oracle.dtype)
    return (one - other).abs() > RELATIVE * one.abs() + base


def find_wrong_integers(chunk: Chunk) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where integers differ from the reference's and from the oracle, and the errors."""
    output, native = chunk.output, chunk.native
    if output is None:
        raise ValueError("nothing is compared")
    differs = (output != native) & (output != chunk.oracle.to(output.dtype))
    return differs, differs.to(torch.float64)


def find_own_off(chunk: Chunk, base: float) -> torch.Tensor:
    """Return where the reference is off by more than a candidate may be."""
    return find_own_error(chunk) > find_relative(chunk) * chunk.oracle.abs() + base


def limit_elements(
    chunk: Chunk, limits: HiddenLimits, tolerance: ToleranceSpec | None
) -> ChunkLimits:
    """Return how far the elements of a chunk may be off.

    Args:
        chunk: What the reference returns.
        limits: Of the whole output.
        tolerance: The kernel's own, which is added.
    """
    oracle, defined = chunk.oracle, find_defined(chunk)
    change = (chunk.perturbed - oracle).abs().nan_to_num_(0.0, 0.0, 0.0)
    noise = _REFERENCE_FACTOR * find_own_error(chunk) + _ULPS * change
    allowed = find_relative(chunk) * oracle.abs() + limits.base + noise
    if tolerance is not None:
        allowed += tolerance["atol"] + tolerance["rtol"] * oracle.abs()
    allowed = torch.where(defined, allowed, math.inf)
    return ChunkLimits(defined, allowed, _GROSS_FACTOR * allowed + limits.worst_noise, noise)
