"""Defines how exact a timed candidate and its baseline are."""

from __future__ import annotations

from typing import Literal

from kernelkb.model.base import Record

Precision = Literal["fp32", "tf32", "bf16-products", "bf16", "fp16"]
"""How fp32 arithmetic is done, most exact first. fp32: as IEEE 754 says. tf32: products of matrices
and convolutions in TF32. bf16-products: the same in bf16, on CPUs with such instructions. bf16 and
fp16: weights and inputs are converted, and outputs back."""


class Accuracy(Record):
    """Errors against the fp64 reference, and at which precision the baseline computed.

    An error is the root mean square of the outputs' errors, relative to the outputs' own; of
    several outputs the largest.
    """

    candidate_error: float
    """Of the worst call that was compared."""
    reference_error: float | None = None
    """Of the task's own torch code."""
    task_precision: Precision | None = None
    """Of the task's own torch code; None where it is not known."""
    baseline_precision: Precision | None = None
    """Of the baseline."""
    admitted: tuple[Precision, ...] = ()
    """Lower precisions at which torch was timed too: its error there is no larger than the
    candidate's, or by one bit at most."""
    baseline_error: float | None = None
    """Of the baseline, where it computed at one of those."""
    exact_baseline: str | None = None
    """The fastest baseline at the task's own precision, where another was faster."""
    exact_speedup: float | None = None
    """About what the speedup over that one is: times of a few batches."""
