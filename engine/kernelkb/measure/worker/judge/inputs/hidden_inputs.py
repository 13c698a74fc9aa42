"""Hidden distributions: what a check does to drawn inputs besides comparing them as they are.

A kernel is right for its own inputs only if it skips a step that they do not need: the maximum of a
softmax, a branch for zero, the sign. Integer inputs keep their values: they may be indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from kernelkb.measure.worker.judge.inputs.memory_plan import split_flat
from kernelkb.measure.worker.shared.messages.specs import Distribution

DESCRIPTIONS: dict[Distribution, str] = {
    "tripled": "inputs scaled by 3",
    "hundredth": "inputs scaled by 0.01",
    "hundredfold": "inputs scaled by 100",
    "tiny": "inputs scaled by 1e-15",
    "negated": "negated inputs",
    "constant": "constant inputs",
    "sparse": "sparse inputs, most of them zero, and all of the first",
    "extremes": "inputs with extremes: large, zero, -0, equal and subnormal values",
    "outliers": "inputs with one to three large values",
    "infinities": "inputs with infinities",
    "nan": "inputs with NaN",
}
TIED: tuple[Distribution, ...] = ("constant", "sparse", "extremes")
"""Distributions with many equal values: which of them is picked is for the kernel to choose."""
NEARLY_ZERO: tuple[Distribution, ...] = ("constant", "tiny")
"""Distributions whose outputs may be nearly zero for lack of digits: constant ones cancel, and the
exp of a tiny one is 1."""
NON_FINITE: tuple[Distribution, ...] = ("infinities", "nan")
_KEPT_SHARE = 0.1
"""Of sparse inputs, the share that is not zero."""
_ZERO_SHARE = 1 / 8
"""Of sparse inputs, the share at the start that is zero: whole rows of a matrix."""
_FEW, _MANY = 1 / 256, 1 / 16
"""Shares of elements that are replaced: by large or non-finite values, and by small ones."""
_MIN_FEW = 6.0
"""Elements that are replaced at least, of arrays with many more."""
_MOST_OUTLIERS = 3
"""So few that a kernel which looks at a part of its inputs, to see whether all are as usual, is
likely to miss them."""
_LARGE_EXPONENTS = {torch.float16: (1.0, 3.0)}
_OTHER_LARGE_EXPONENTS = (2.0, 4.0)
"""Powers of ten of large values: beyond the range of exp, with squares within the dtype's."""


def transform_inputs(
    distribution: Distribution | None, arrays: Sequence[torch.Tensor], seed: int
) -> None:
    """Change drawn inputs in place, the same way for one seed.

    Args:
        distribution: Which; None changes nothing.
        arrays: Drawn inputs, contiguous, of any shape; those that are no floats are left as they
            are.
        seed: Chooses the elements that are replaced, and by what.
    """
    if distribution is None:
        return
    transform = _TRANSFORMS[distribution]
    for index, array in enumerate(arrays):
        if _is_changed(distribution, array):
            generator = torch.Generator(device=array.device)
            generator.manual_seed(seed * len(arrays) + index)
            is_uniform = distribution == "constant"  # it has one value in all chunks
            for chunk in [array.view(-1)] if is_uniform else split_flat(array):
                values = chunk.to(_compute_dtype(array))  # a copy of types of 8 bits only
                transform(values, generator)
                chunk.copy_(values)


def changes_anything(distribution: Distribution, arrays: Sequence[torch.Tensor]) -> bool:
    """Return whether a distribution changes any of some inputs."""
    return any(_is_changed(distribution, array) for array in arrays)


def _is_changed(distribution: Distribution, array: torch.Tensor) -> bool:
    """Types of 8 bits hold little more than usual values, and fp16 nothing tiny."""
    is_narrow = array.element_size() == 1 and distribution in (
        "tiny",
        "extremes",
        "outliers",
        *NON_FINITE,
    )
    is_lost = array.dtype == torch.float16 and distribution == "tiny"
    return array.is_floating_point() and array.numel() > 0 and not (is_narrow or is_lost)


def _scale(factor: float) -> Callable[[torch.Tensor, torch.Generator], None]:
    def scale(flat: torch.Tensor, _generator: torch.Generator) -> None:
        flat.mul_(factor)

    return scale


def _make_constant(flat: torch.Tensor, _generator: torch.Generator) -> None:
    flat.copy_(flat[0].clone())


def _make_sparse(flat: torch.Tensor, generator: torch.Generator) -> None:
    flat.masked_fill_(~_draw_mask(flat, _KEPT_SHARE, generator), 0.0)
    flat[: int(_ZERO_SHARE * flat.numel())] = 0.0


def _insert_extremes(flat: torch.Tensor, generator: torch.Generator) -> None:
    tiny = torch.finfo(flat.dtype).tiny
    for value in (0.0, -0.0, tiny / 4, -tiny / 4):
        flat.masked_fill_(_draw_mask(flat, _MANY / 2, generator), value)
    flat.copy_(torch.where(_draw_mask(flat, _MANY, generator), flat.roll(1), flat))  # ties
    flat.copy_(torch.where(_choose_few(flat, generator), _draw_large(flat, generator), flat))


def _insert_outliers(flat: torch.Tensor, generator: torch.Generator) -> None:
    """Replace one to three values."""
    draws = torch.randint(
        flat.numel(), (_MOST_OUTLIERS + 1,), generator=generator, device=flat.device
    )
    count = min(1 + int(draws[0]) % _MOST_OUTLIERS, flat.numel())
    large = _draw_large(flat[:count], generator)
    large[0] = large[0].abs()  # of the two signs only this one overflows an exp
    flat[draws[1 : 1 + count]] = large


def _draw_large(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return large values of either sign, of the shape and type of others."""
    low, high = _LARGE_EXPONENTS.get(like.dtype, _OTHER_LARGE_EXPONENTS)
    draws = torch.rand(like.shape, generator=generator, device=like.device)
    large = (draws * (high - low) + low).mul_(math.log(10)).exp_()
    return torch.where(_draw_mask(like, 0.5, generator), large, -large).to(like.dtype)


def _insert_infinities(flat: torch.Tensor, generator: torch.Generator) -> None:
    chosen, is_negative = _choose_few(flat, generator), _draw_mask(flat, 0.5, generator)
    flat.masked_fill_(chosen, math.inf).masked_fill_(chosen & is_negative, -math.inf)


def _insert_nan(flat: torch.Tensor, generator: torch.Generator) -> None:
    flat.masked_fill_(_choose_few(flat, generator), math.nan)


def _choose_few(flat: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return a mask of a few elements, the last one among them: kernels treat tails apart."""
    share = min(_MANY, max(_FEW, _MIN_FEW / flat.numel()))
    chosen = _draw_mask(flat, share, generator)
    if flat.numel() > 1 / _MANY:
        chosen[-1] = True
    return chosen


def _draw_mask(flat: torch.Tensor, share: float, generator: torch.Generator) -> torch.Tensor:
    """Return a mask of about a share of the elements."""
    return torch.rand(flat.shape, generator=generator, device=flat.device) < share


def _compute_dtype(tensor: torch.Tensor) -> torch.dtype:
    """Return a type in which torch has all operations: types of 8 bits have few."""
    return torch.float32 if tensor.element_size() == 1 else tensor.dtype


_TRANSFORMS: dict[Distribution, Callable[[torch.Tensor, torch.Generator], None]] = {
    "tripled": _scale(3.0),
    "hundredth": _scale(0.01),
    "hundredfold": _scale(100.0),
    "tiny": _scale(1e-15),  # their squares are normal numbers of fp32
    "negated": _scale(-1.0),
    "constant": _make_constant,
    "sparse": _make_sparse,
    "extremes": _insert_extremes,
    "outliers": _insert_outliers,
    "infinities": _insert_infinities,
    "nan": _insert_nan,
}
