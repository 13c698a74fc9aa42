"""The reference's outputs for some inputs, as exact as memory allows: an oracle, by rows."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple

import torch

from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, Tensors
from kernelkb.measure.worker.judge.inputs.memory_plan import (
    CHUNK_ELEMENTS,
    FP32_NOTE,
    PIECES_NOTE,
    SAMPLED_NOTE,
    root_mean_square,
)
from kernelkb.measure.worker.judge.inputs.references import StableOrderMode
from kernelkb.measure.worker.shared.fp32_precision import fp32_precision
from kernelkb.measure.worker.shared.memory import release_torch_cache
from kernelkb.measure.worker.shared.messages.specs import ArraySpec

ALL_ROWS = slice(None)
_MAX_PIECES = 32
"""What is computed of a piece takes a small share of the memory for all rows."""
_MIN_ROWS = 4
_SAMPLED_PART = 4
"""Of the pieces, one in so many is compared where the reference takes long. One that is wrong in
each call passes three calls in four, and 15 calls once in 75."""
_TESTED_PIECES = 3
"""Pieces whose halves are run as well, besides the last."""
_MAX_DIFFERENCES = {torch.float64: 1e-9, torch.float32: 1e-5}
"""Between a piece and its halves, as a share of the root mean square: sums may be taken in another
order. In other types rounding hides too much, so that elements have to be equal."""


def list_row_pieces(case: KernelCase, inputs: Tensors, *, always: bool = False) -> list[slice]:
    """Return the rows of each piece in which a case's reference is run: all in one where it must.

    Args:
        case: Shapes and reference.
        inputs: One tensor for each of ``case.input_specs``.
        always: Also where the memory suffices for all rows at once.

    Raises:
        torch.OutOfMemoryError: A piece does not fit.
        UnsupportedHost: All rows at once do not fit, by the case's memory plan.
    """
    if not case.plan.in_pieces and not always:
        return [ALL_ROWS]
    if case.works_by_rows is None:
        _find_whether_rows_are_independent(case, inputs)
    if case.works_by_rows:
        return _split_rows(count_rows(case))
    case.plan.require_room_for_all_rows()
    return [ALL_ROWS]


def draw_pieces(pieces: Sequence[slice]) -> list[slice]:
    """Return a quarter of some pieces, one at least, by the operating system's randomness."""
    count = -(-len(pieces) // _SAMPLED_PART)
    drawn = random.SystemRandom().sample(range(len(pieces)), count)
    return [pieces[at] for at in sorted(drawn)]


def _split_rows(rows: int) -> list[slice]:
    step = -(-rows // (2 * _MAX_PIECES)) * 2  # even, so that each piece has halves
    return [slice(start, min(rows, start + step)) for start in range(0, rows, step)]


def count_rows(case: KernelCase) -> int:
    """Return the size of the first dimension that all outputs and some inputs share; 0: none."""
    sizes = {spec["shape"][0] if spec["shape"] else 0 for spec in case.output_specs}
    rows = sizes.pop() if len(sizes) == 1 else 0
    return rows if any(has_rows(spec, rows) for spec in case.input_specs) else 0


def has_rows(spec: ArraySpec, rows: int) -> bool:
    """Return whether an array's first dimension is a number of rows."""
    return bool(spec["shape"]) and spec["shape"][0] == rows


def take_rows(case: KernelCase, inputs: Sequence[torch.Tensor], rows: slice) -> Tensors:
    """Return views of some rows of the inputs; of inputs without rows all."""
    if rows == ALL_ROWS:
        return list(inputs)
    count = count_rows(case)
    return [
        tensor[rows] if has_rows(spec, count) else tensor
        for spec, tensor in zip(case.input_specs, inputs, strict=True)
    ]


def _find_whether_rows_are_independent(case: KernelCase, inputs: Tensors) -> None:
    """Set ``works_by_rows`` of a case: whether pieces of its rows give what their halves give.

    The last piece and some that are drawn are run whole and as two halves. What takes a mean over
    rows, or depends on their number, order or place, differs there.

    Raises:
        torch.OutOfMemoryError: The piece does not fit.
    """
    case.works_by_rows = False
    rows = count_rows(case)
    if rows < _MIN_ROWS:
        return
    pieces = _split_rows(rows)
    drawn = random.SystemRandom().sample(pieces, min(_TESTED_PIECES, len(pieces)))
    for dtype in (torch.float64, None):  # some references create tensors of a fixed dtype
        try:
            case.works_by_rows = all(
                _equals_its_halves(case, inputs, piece, dtype) for piece in (pieces[-1], *drawn)
            )
            break
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
            pass  # or it needs the shape that it was written for
    release_torch_cache()


def _equals_its_halves(
    case: KernelCase, inputs: Tensors, piece: slice, dtype: torch.dtype | None
) -> bool:
    middle = (piece.start + piece.stop) // 2
    if middle == piece.start:
        return True
    whole = case.run_reference(take_rows(case, inputs, piece), dtype)
    if any(output.shape[:1] != (piece.stop - piece.start,) for output in whole):
        return False
    size = middle - piece.start
    for half, own in (
        (slice(piece.start, middle), slice(0, size)),
        (slice(middle, piece.stop), slice(size, piece.stop - piece.start)),
    ):
        outputs = case.run_reference(take_rows(case, inputs, half), dtype)
        pairs = zip(outputs, whole, strict=True)
        if not all(is_nearly_equal(o, other[own], _MAX_DIFFERENCES) for o, other in pairs):
            return False
    return True


class OutputSizeError(ValueError):
    """The reference returns another number of elements than kernel.yaml gives an output."""


def _require_sizes(outputs: Sequence[torch.Tensor], specs: Sequence[ArraySpec]) -> None:
    for output, spec in zip(outputs, specs, strict=True):
        if output.numel() != math.prod(spec["shape"]):
            raise OutputSizeError(
                f"{spec['name']} is {list(output.shape)} by the reference and "
                f"{list(spec['shape'])} by kernel.yaml"
            )


def is_nearly_equal(
    left: torch.Tensor, right: torch.Tensor, shares: Mapping[torch.dtype, float]
) -> bool:
    """Return whether two outputs have one shape and dtype, and almost the same values.

    Args:
        left: An output.
        right: What it is compared with.
        shares: By dtype, how much an element may differ, as a share of the root mean square; of
            other dtypes elements have to be equal, and of any where they are not finite.
    """
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not left.is_floating_point():
        return bool(torch.equal(left, right))
    share = shares.get(left.dtype, 0.0)
    if left.element_size() == 1:  # few operations know these floats
        left, right = left.to(torch.float32), right.to(torch.float32)
    difference = (left - right).abs_()
    if not bool(difference.isfinite().all()):
        is_same = (left == right) | (left.isnan() & right.isnan())
        difference = torch.where(is_same, 0.0, difference)
    if not difference.numel():
        return True
    scale = root_mean_square(right[right.isfinite()])
    return float(difference.max()) <= share * scale


TRUNCATED_BITS = 11
"""Of fp32's 23, for ``truncate_inputs``; TF32 has 13 fewer, so the error is a quarter of TF32's."""
_PERTURBATIONS = 4
"""Generators for each input, so that seeds below it give independent perturbations."""


class OraclePiece(NamedTuple):
    """Some rows of all outputs."""

    rows: slice
    outputs: Tensors
    """In the oracle's dtype."""
    native: list[torch.Tensor | None]
    """As the reference computes them in its own types; None where that was not asked for."""


class Oracle:
    """What is right for some inputs.

    Of a reference whose rows do not depend on each other, and where the case's memory plan says so,
    some rows are computed at a time, and again for each comparison. Else all is kept, or a sample.

    Attributes:
        dtype: In which it is computed; None: in the reference's own types.
        pieces: The rows that are computed at a time.
    """

    def __init__(self, case: KernelCase, inputs: Tensors, *, sampled: bool = False) -> None:
        """Compute it, where it is kept.

        Args:
            case: Shapes and reference.
            inputs: One tensor for each of ``case.input_specs``, on the case's device.
            sampled: Whether a quarter of the rows suffices, where they do not depend on each other.

        Raises:
            torch.OutOfMemoryError: Not even one in fp32 fits.
            UnsupportedHost: The same, by the case's memory plan.
        """
        self._case, self._inputs = case, inputs
        self.pieces = list_row_pieces(case, inputs, always=sampled)
        self._sample: list[OraclePiece] = []
        self.is_kept = self.pieces == [ALL_ROWS]
        self.dtype: torch.dtype | None = case.plan.oracle_dtype if self.is_kept else torch.float64
        self._native: list[torch.Tensor | None] = []
        self._outputs: Tensors = []
        self._is_stable = False
        if not self.is_kept:
            self._find_dtype()
            if sampled:
                self.pieces = draw_pieces(self.pieces)
                self._sample = list(self._compute_pieces(with_native=True))
            case.add_note(SAMPLED_NOTE if sampled else PIECES_NOTE)
            return
        is_retry = False
        try:
            self._compute_all()
        except torch.OutOfMemoryError:
            is_retry = self.dtype == torch.float64
            if not is_retry:
                raise
        if is_retry:  # outside of the handler, whose traceback keeps the first try's arrays alive
            self.dtype, self._native, self._outputs = torch.float32, [], []
            release_torch_cache()
            self._compute_all()
        if self.dtype == torch.float32:
            case.add_note(FP32_NOTE)

    def _compute_all(self) -> None:
        native = self._run_native(self._inputs)
        self._native = [*native]
        _require_sizes(native, self._case.output_specs)
        try:
            self._outputs = self.run(self._inputs)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            # It creates tensors of a fixed dtype, which torch does not mix with wider ones.
            self.dtype, self._outputs = None, _widen(self._run_native(self._inputs))

    def _find_dtype(self) -> None:
        try:
            self.run(take_rows(self._case, self._inputs, self.pieces[0]))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # as above
            self.dtype = None

    def _run_native(self, inputs: Tensors) -> Tensors:
        stated = self._case.case_spec.get("precision")
        order = StableOrderMode() if self._is_stable else nullcontext()
        with fp32_precision("tf32" if stated == "open" else stated), order:
            return self._case.run_reference(inputs, None)

    def run(self, inputs: Tensors, *, preserve_inputs: bool = True) -> Tensors:
        """Return the reference's outputs for inputs, in the oracle's dtype."""
        if self.dtype is None:
            return _widen(self._run_native(inputs))
        with fp32_precision("fp32"):  # an oracle in fp32 is to be exact
            outputs = self._case.run_reference(inputs, self.dtype, preserve_inputs=preserve_inputs)
        return _widen(outputs)

    def iter_pieces(self, *, with_native: bool = False) -> Iterator[OraclePiece]:
        """Yield all rows, piece by piece, or those of the sample.

        Args:
            with_native: Also what the reference itself returns of floating-point outputs. Where the
                oracle is kept, that can be had until ``drop_native``.
        """
        if self.is_kept:
            yield OraclePiece(ALL_ROWS, self._outputs, self._native)
        elif self._sample:
            yield from self._sample
        else:
            yield from self._compute_pieces(with_native=with_native)

    def _compute_pieces(self, *, with_native: bool) -> Iterator[OraclePiece]:
        is_asked = with_native or has_integers(self._case)
        for rows in self.pieces:
            inputs = take_rows(self._case, self._inputs, rows)
            outputs = self.run(inputs)
            native: list[torch.Tensor | None] = [None] * len(outputs)
            if is_asked:
                is_same = self.dtype is None and not self._is_stable
                native = [*(outputs if is_same else self._run_native(inputs))]
            yield OraclePiece(rows, outputs, native)

    def drop_native(self) -> None:
        """Free what the reference itself returned of floating-point outputs."""
        self._native = _drop_floats(self._native)
        self._sample = [one._replace(native=_drop_floats(one.native)) for one in self._sample]

    def settle_ties(self) -> None:
        """From now on the reference's own integers are those of a stable order.

        Those of the oracle are in the order that torch happens to choose; either is right.
        """
        self._is_stable = True
        if self._native and has_integers(self._case):
            self._native = _drop_floats([*self._run_native(self._inputs)])
        elif self._sample and has_integers(self._case):
            self._sample = list(self._compute_pieces(with_native=False))

    def read_all(self) -> Tensors:
        """Return all rows of the outputs, which must be small."""
        return _join([piece.outputs for piece in self.iter_pieces()])

    def run_perturbed(self, seed: int) -> Tensors:
        """Return all rows of the outputs, which must be small, with each input changed by 1 ulp."""
        if self.dtype is None:
            raise ValueError("the inputs cannot be changed by less than their own digits")
        joined = []
        for rows in self.pieces:
            inputs = take_rows(self._case, self._inputs, rows)
            perturbed = perturb_inputs(inputs, seed, self.dtype)
            joined.append(self.run(perturbed, preserve_inputs=False))
        return _join(joined)


def _widen(outputs: Tensors) -> Tensors:
    """Return outputs that a reference rounds to float8 itself as fp32: few operations know them."""
    return [
        one.to(torch.float32) if one.is_floating_point() and one.element_size() == 1 else one
        for one in outputs
    ]


def has_integers(case: KernelCase) -> bool:
    """Return whether any output holds no floating-point numbers."""
    return not all(getattr(torch, one["dtype"]).is_floating_point for one in case.output_specs)


def _drop_floats(tensors: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    return [None if one is None or one.is_floating_point() else one for one in tensors]


def _join(pieces: list[Tensors]) -> Tensors:
    return (
        pieces[0] if len(pieces) == 1 else [torch.cat(parts) for parts in zip(*pieces, strict=True)]
    )


def perturb_inputs(
    inputs: Tensors, seed: int, dtype: torch.dtype, least_ulp: float = 0.0
) -> Tensors:
    """Return floating-point inputs in ``dtype``, each value changed by ±1 ulp of its own dtype.

    Args:
        inputs: Of any shapes.
        seed: Chooses the signs.
        dtype: Of what is returned.
        least_ulp: The relative change is at least this.
    """
    perturbed = []
    for index, tensor in enumerate(inputs):
        if tensor.is_floating_point():
            generator = torch.Generator(device=tensor.device)
            generator.manual_seed(_PERTURBATIONS * index + seed)
            ulp = max(least_ulp, torch.finfo(tensor.dtype).eps)
            tensor = tensor.to(dtype, copy=True)
            for chunk in tensor.view(-1).split(CHUNK_ELEMENTS):
                up = torch.empty(chunk.shape, dtype=torch.bool, device=chunk.device)
                up.bernoulli_(0.5, generator=generator)
                chunk.mul_(torch.where(up, chunk.new_tensor(1 + ulp), chunk.new_tensor(1 - ulp)))
        perturbed.append(tensor)
    return perturbed


def truncate_inputs(inputs: Tensors) -> Tensors:
    """Return inputs of which those in fp32 have lost their last digits, without rounding."""
    mask = -1 << TRUNCATED_BITS
    return [
        (tensor.view(torch.int32) & mask).view(torch.float32)
        if tensor.dtype == torch.float32
        else tensor
        for tensor in inputs
    ]
