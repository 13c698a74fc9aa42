"""Compares outputs for a hidden distribution: whether the computation is right, not how exact.

How many digits are right is judged on the task's own inputs. Here a correct kernel may lose more of
them to cancellation than the reference does, so the limits are wide: one percent, and what a change
of the inputs by one ulp changes. What a kernel gets wrong that skips a step is far above that.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import torch

from kernelkb.measure.worker.judge.compare.error_limits import (
    WrongElements,
    find_alike_overflow,
    off_count,
)
from kernelkb.measure.worker.judge.compare.error_shape import describe_error_shape
from kernelkb.measure.worker.judge.compare.oracle import (
    ALL_ROWS,
    draw_pieces,
    has_integers,
    list_row_pieces,
    perturb_inputs,
    take_rows,
    truncate_inputs,
)
from kernelkb.measure.worker.judge.compare.wrong_values import WrongOutput
from kernelkb.measure.worker.judge.inputs.hidden_inputs import NEARLY_ZERO, NON_FINITE, TIED
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, Tensors, may_be_unwritten
from kernelkb.measure.worker.judge.inputs.memory_plan import (
    SAMPLED_NOTE,
    MeanSquare,
    larger,
    largest_of,
    split_alike,
)
from kernelkb.measure.worker.judge.inputs.references import (
    NanIgnoringMode,
    StableOrderMode,
    compares_elements,
    computes_indices,
    has_steps,
    multiplies_matrices,
    orders_elements,
    sorts_values,
)
from kernelkb.measure.worker.shared.failures import UnsupportedHost
from kernelkb.measure.worker.shared.fp32_precision import fp32_precision
from kernelkb.measure.worker.shared.messages.jobs import OutputComparison
from kernelkb.measure.worker.shared.messages.specs import Distribution, Tolerances, ToleranceSpec

RELATIVE = 0.01
_GROSS_FACTOR = 10.0
"""An element that is off by so much more than may be is wrong, even if it is the only one."""
_ULPS = 32.0
_REFERENCE_FACTOR = 8.0
_BASE_SHARE = 1e-3
"""Absolute error that passes, as a share of the outputs' root mean square."""
_OWN_SHARE = 0.01
"""As a share of the root mean square for the task's own inputs; see ``NEARLY_ZERO``."""
_WRONG_SHARE, _WRONG_STEP_SHARE = 0.01, 0.05
"""Share of elements that may be off; the second where outputs jump and rounding decides."""
_OFF_SHARE = 0.05
"""Share of elements that may be off relative to their own value."""
_MIN_DEFINED_SHARE = 0.5
_MAX_DISAGREEING_SHARE = 0.01
"""Share of elements in which the reference may differ from itself in fp64 by more than 1 %."""
_TF32_ULP = 2**-10
_NO_MEMORY = "the memory does not suffice"
_Outputs = list[Tensors | None]
"""All outputs, as the fields of a chunk but the last."""


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
    """As the oracle, for inputs that differ in their last digit; of integers, as the reference
    computes them where equal elements keep their order."""
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


def find_overflow(chunk: Chunk, limits: ChunkLimits) -> torch.Tensor:
    """Return where the candidate is infinite and may be: an error that passes overflows, too."""
    if chunk.output is None:
        raise ValueError("nothing is compared")
    return find_alike_overflow(chunk.output, chunk.oracle, limits.error)


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
    differs &= output != chunk.perturbed.to(output.dtype)
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


class UndefinedError(Exception):
    """The reference does not say what is right; the text is the reason."""


class HiddenReference:
    """The correct outputs for inputs of a hidden distribution, where the reference defines them."""

    def __init__(
        self,
        case: KernelCase,
        inputs: Tensors,
        distribution: Distribution,
        tolerances: Tolerances,
        own_rms: Sequence[float],
    ) -> None:
        """Compute them.

        Args:
            case: Shapes and reference.
            inputs: Drawn and transformed: one tensor for each of ``case.input_specs``.
            distribution: Theirs.
            tolerances: The kernel's own, by dtype.
            own_rms: Root mean square of each output for the task's own inputs.

        Raises:
            UndefinedError: The reference raises, is not finite, or does not agree with itself.
        """
        start_s = time.monotonic()
        self._distribution, self._own_rms = distribution, own_rms
        self._case, self._inputs, self._tolerances = case, inputs, tolerances
        self._operations = case.list_operations(inputs)
        has_integers = any(not tensor.is_floating_point() for tensor in inputs)
        if case.target == "cuda" and not has_integers and computes_indices(self._operations):
            # An index outside of its range would end every later call of the GPU.
            raise UndefinedError("its indices follow from the inputs")
        self._all_pieces = _list_pieces(case, inputs)
        self._pieces = self._choose_pieces()
        self._kept: _Outputs | None = None
        try:
            if self._pieces == [ALL_ROWS]:
                self._kept = self._run(inputs)
            self._limits = self._make_all_limits()
        except (RuntimeError, ValueError, IndexError, ArithmeticError, AssertionError) as error:
            raise UndefinedError(f"the reference raises {type(error).__name__}") from error
        if not any(limits is not None for limits in self._limits):
            raise UndefinedError("which of equal elements is taken is not defined")
        self._setup_s = time.monotonic() - start_s

    def _choose_pieces(self) -> list[slice]:
        """Return a quarter of the pieces where comparing an earlier call took long, else all."""
        if self._all_pieces == [ALL_ROWS] or not self._case.may_sample("hidden"):
            return self._all_pieces
        self._case.add_note(SAMPLED_NOTE)
        return draw_pieces(self._all_pieces)

    def _run(self, inputs: Tensors) -> _Outputs:
        """Run the reference on all rows, or on some."""
        try:
            return self._run_repeatedly(inputs)
        except torch.OutOfMemoryError:
            raise UndefinedError(_NO_MEMORY) from None

    def _run_repeatedly(self, inputs: Tensors) -> _Outputs:
        case = self._case
        dtype = case.plan.oracle_dtype if self._pieces == [ALL_ROWS] else torch.float64
        stated = case.case_spec.get("precision")
        # Where precision is open, the shortened inputs bring the digits that may be lost.
        with fp32_precision(None if stated == "open" else stated):
            native = case.run_reference(inputs, None)
        try:
            oracle = case.run_reference(inputs, dtype)
            changed = perturb_inputs(self._shorten(inputs), 0, dtype, self._product_ulp())
            perturbed = case.run_reference(changed, dtype, preserve_inputs=False)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # it creates tensors of a fixed dtype
            oracle = perturbed = native
        settled = oracle
        if orders_elements(self._operations) and has_integers(case):
            with StableOrderMode():
                settled = case.run_reference(inputs, None)
        perturbed = [*map(_choose_number, perturbed, settled)]
        return [native, oracle, perturbed, *self._run_on_nan(inputs)]

    def _shorten(self, inputs: Tensors) -> Tensors:
        """Return inputs with the digits that products take, where fewer than those of fp32."""
        is_shorter = self._case.case_spec.get("precision") not in (None, "fp32")
        if (is_shorter and multiplies_matrices(self._operations)) or self._case.admits_tf32(
            self._operations
        ):
            return truncate_inputs(inputs)
        return inputs

    def _product_ulp(self) -> float:
        """Return by how much products of matrices may be off, where large ones enter an exp."""
        is_steep = self._distribution == "hundredfold" and multiplies_matrices(self._operations)
        return _TF32_ULP if is_steep else 0.0

    def _run_on_nan(self, inputs: Tensors) -> _Outputs:
        if self._distribution != "nan":
            return [None, None, None]
        with NanIgnoringMode():
            ignoring_nan = self._case.run_reference(inputs, None)
        if not multiplies_matrices(self._operations):
            return [ignoring_nan, None, None]
        return [ignoring_nan, *(self._run_without_nan(inputs, value) for value in (1.0, -1.0))]

    def _run_without_nan(self, inputs: Tensors, value: float) -> Tensors:
        numbers = [x.nan_to_num(value) if x.is_floating_point() else x for x in inputs]
        return self._case.run_reference(numbers, None)

    def _iter_chunks(self, index: int, output: torch.Tensor | None = None) -> Iterator[Chunk]:
        """Yield some elements of an output at a time, with those of a candidate's."""
        for rows in self._pieces:
            found = self._kept or self._run(take_rows(self._case, self._inputs, rows))
            own = output[rows] if output is not None and output.dim() else output
            arrays = [*(part and part[index] for part in found), own]
            parts = split_alike(*(array for array in arrays if array is not None))
            for part in map(iter, parts):
                yield Chunk(*(array if array is None else next(part) for array in arrays))

    def _make_all_limits(self) -> list[HiddenLimits | None]:
        return [self._make_limits(index) for index in range(len(self._case.output_specs))]

    def _make_limits(self, index: int) -> HiddenLimits | None:
        """Return the limits of one output; None where nothing can be said of it."""
        is_number = getattr(torch, self._case.output_specs[index]["dtype"]).is_floating_point
        is_tied = self._distribution in TIED or self._distribution in NON_FINITE
        has_values = is_number and self._distribution != "nan" and sorts_values(self._operations)
        if is_tied and orders_elements(self._operations) and not has_values:
            return None
        if not is_number:
            return None if is_tied else self._make_integer_limits(index)
        count, defined_count, squares = 0, 0, MeanSquare()
        for chunk in self._iter_chunks(index):
            defined = find_defined(chunk)
            count += defined.numel()
            defined_count += int(defined.count_nonzero())
            squares.add(chunk.oracle[defined])
        if self._distribution not in NON_FINITE and defined_count < _MIN_DEFINED_SHARE * count:
            raise UndefinedError("the reference is undefined there")
        base = _BASE_SHARE * squares.root()
        if self._distribution in NEARLY_ZERO:
            base = max(base, _OWN_SHARE * self._own_rms[index])
        off, worst_noise = 0, 0.0
        for chunk in self._iter_chunks(index):
            off += int(find_own_off(chunk, base).count_nonzero())
            noise = limit_elements(chunk, HiddenLimits(base, 0.0), None).noise
            worst_noise = larger(worst_noise, largest_of(noise))
        if off > _MAX_DISAGREEING_SHARE * count:
            raise UndefinedError("the reference in fp64 disagrees with itself there")
        return HiddenLimits(base, math.inf if has_steps(self._operations) else worst_noise)

    def _make_integer_limits(self, index: int) -> HiddenLimits:
        """Return limits of an integer output, for which only the share of differences counts.

        Raises:
            UndefinedError: Rounding decides too many of its elements.
        """
        count = off = 0
        for chunk in self._iter_chunks(index):
            count += chunk.native.numel()
            off += int((chunk.native != chunk.oracle.to(chunk.native.dtype)).count_nonzero())
        if off > _MAX_DISAGREEING_SHARE * count:
            raise UndefinedError("the reference in fp64 disagrees with itself there")
        return HiddenLimits(0.0, 0.0)

    def compare(self, outputs: Tensors) -> OutputComparison:
        """Compare outputs, one tensor per output array; return the worst comparison.

        Where a sample of the rows is compared, one NaN anywhere has all of them compared.

        Raises:
            UndefinedError: The memory does not suffice.
        """
        if self._pieces is self._all_pieces:
            start_s = time.monotonic() - self._setup_s
            comparison = self._compare(outputs)
            self._case.comparison_times["hidden"].append(time.monotonic() - start_s)
            return comparison
        if self._distribution not in NON_FINITE and may_be_unwritten(outputs):
            self._pieces = self._all_pieces
            self._limits = self._make_all_limits()
        return self._compare(outputs)

    def describe_wrong(self, outputs: Tensors) -> list[str]:
        """Return sentences on how wrong outputs differ; see ``describe_error_shape``.

        Only of numbers where the reference is finite, and of the first chunk that has wrong ones.
        """
        with suppress(Exception):  # the reference's own: the verdict stands without a description
            for index, (output, limits) in enumerate(zip(outputs, self._limits, strict=True)):
                if limits is not None and output.is_floating_point():
                    for chunk in self._iter_chunks(index, output):
                        if found := self._describe_chunk(index, chunk, limits):
                            return found
        return []

    def _describe_chunk(self, index: int, chunk: Chunk, limits: HiddenLimits) -> list[str]:
        if chunk.output is None:
            return []
        case, relative = self._case, find_relative(chunk)
        own = limit_elements(chunk, limits, None)
        wrong = own.defined & ~((get_value(chunk) - chunk.oracle).abs() <= own.error)
        given = WrongOutput(chunk.output, chunk.oracle, wrong, limits.base, relative)
        is_index = case.target == "cuda" and computes_indices(self._operations)
        kept = self._kept[1] if self._kept else None
        is_whole = kept is not None and chunk.oracle.shape == kept[index].shape
        if is_whole and not case.is_recorded and not is_index:
            names = (spec["name"] for spec in case.input_specs)
            given = given._replace(
                inputs=list(zip(names, self._inputs, strict=True)),
                rerun=lambda inputs: case.run_reference(inputs, case.plan.oracle_dtype)[index],
            )
        return describe_error_shape(given)

    def _compare(self, outputs: Tensors) -> OutputComparison:
        comparisons = [
            self._compare_output(index, output, limits)
            for index, (output, limits) in enumerate(zip(outputs, self._limits, strict=True))
            if limits is not None
        ]
        return min(comparisons, key=lambda c: (c["correct"], c["matched_ratio"]))

    def _compare_output(
        self, index: int, output: torch.Tensor, limits: HiddenLimits
    ) -> OutputComparison:
        wrong, relatively_wrong = WrongElements(), WrongElements()
        is_gross, lost_count, off = False, 0, 0
        allowed = _WRONG_STEP_SHARE if has_steps(self._operations) else _WRONG_SHARE
        tolerance = self._tolerances.get(self._case.output_specs[index]["dtype"])
        for chunk in self._iter_chunks(index, output):
            if not chunk.native.is_floating_point():
                allowed = _WRONG_STEP_SHARE
                wrong.add(*find_wrong_integers(chunk))
                continue
            own = limit_elements(chunk, limits, tolerance)
            if self._distribution in NON_FINITE:
                allowed = 0.0
                wrong.add(*self._find_wrong_beside_non_finite(chunk, own, limits.base))
                continue
            own = own._replace(defined=own.defined & ~find_overflow(chunk, own))
            error = find_error(chunk, own.defined, is_tiny=self._distribution == "tiny")
            is_lost = own.defined & ~get_value(chunk).isfinite()
            lost_count += int(is_lost.count_nonzero())
            is_gross = is_gross or bool((is_lost | ~(error <= own.gross)).any())
            wrong.add(is_lost | ~(error <= own.error), error)
            off += self._count_relatively_off(error, chunk, own)
            relatively_wrong.add(~(error <= RELATIVE * chunk.oracle.abs() + own.noise), error)
        if off > _OFF_SHARE * wrong.total:
            return relatively_wrong.make_comparison(0.0, lost_count)
        return wrong.make_comparison(0.0 if is_gross else allowed, lost_count)

    def _count_relatively_off(self, error: torch.Tensor, chunk: Chunk, limits: ChunkLimits) -> int:
        """Return how many small elements are wrong, which the root mean square hides.

        Where matrices are multiplied their error follows the large inputs. Of inputs scaled by 100
        many functions are next to nothing, and no more than that.
        """
        is_asked = self._distribution not in (*NEARLY_ZERO, "hundredfold")
        if not is_asked or multiplies_matrices(self._operations):
            return 0
        precision = torch.finfo(chunk.native.dtype)
        return off_count(
            (error - limits.noise).clamp_(min=0.0),
            torch.where(limits.defined, chunk.oracle, 0.0),
            relative=find_relative(chunk),
            smallest=precision.tiny / precision.eps,
        )

    def _find_wrong_beside_non_finite(
        self, chunk: Chunk, limits: ChunkLimits, base: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return which elements are wrong where inputs are infinite or NaN, and their errors.

        NaN in place of a number is never wrong here: many correct algorithms spread it. A number in
        place of NaN is, unless maxima and minima that ignore NaN lead to it.
        """
        value = get_value(chunk)
        native = chunk.native.to(value.dtype)
        error = torch.where(limits.defined & value.isfinite(), (value - native).abs(), 0.0)
        is_wrong = ~(error <= limits.error)
        if has_steps(self._operations) and float(is_wrong.double().mean()) <= _WRONG_STEP_SHARE:
            is_wrong = torch.zeros_like(is_wrong)
        if multiplies_matrices(self._operations):
            is_wrong |= native.isinf() & value.isfinite()
            if not compares_elements(self._operations):
                is_wrong |= native.isnan() & value.isfinite() & find_nan_followers(chunk, base)
            return is_wrong, error
        is_wrong |= native.isinf() & ~value.isnan() & (value != native)
        if self._distribution == "nan":
            if compares_elements(self._operations):
                return is_wrong, error
            is_wrong |= native.isnan() & value.isfinite()
        if chunk.ignoring_nan is not None:
            other = chunk.ignoring_nan.to(value.dtype)
            difference = (value - other).abs()
            is_wrong &= ~(difference <= RELATIVE * other.abs() + base)
        return is_wrong, error


def _choose_number(number: torch.Tensor, integer: torch.Tensor) -> torch.Tensor:
    return number if number.is_floating_point() else integer


def _list_pieces(case: KernelCase, inputs: Tensors) -> list[slice]:
    try:
        return list_row_pieces(case, inputs, always=case.may_sample("hidden"))
    except (torch.OutOfMemoryError, UnsupportedHost):
        raise UndefinedError(_NO_MEMORY) from None
