"""Runs a case's reference: on all rows at once, or on some at a time where no row needs another.

Memory need not hold an oracle of the whole case then. The rows are those of the first dimension,
which all outputs and some inputs share.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from kernelkb.measure.worker.judge.inputs.chunks import root_mean_square
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, Tensors
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
        if not all(_is_nearly_equal(output, other[own]) for output, other in pairs):
            return False
    return True


def _is_nearly_equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not left.is_floating_point():
        return bool(torch.equal(left, right))
    difference = (left - right).abs_()
    if not bool(difference.isfinite().all()):
        is_same = (left == right) | (left.isnan() & right.isnan())
        difference = torch.where(is_same, 0.0, difference)
    if not difference.numel():
        return True
    scale = root_mean_square(right[right.isfinite()])
    return float(difference.max()) <= _MAX_DIFFERENCES.get(left.dtype, 0.0) * scale
