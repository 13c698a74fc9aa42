"""Chooses what a check hides from a kernel: distributions of its inputs, and sizes not named.

Sizes follow the pattern of those in kernel.yaml: nothing is drawn that its author may exclude.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from kernelkb.loading.kernels import KernelFolder
from kernelkb.measure.job_specs import count_input_elements, format_sizes, make_case_spec
from kernelkb.measure.worker.shared.messages.specs import CaseSpec, Distribution
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import Kernel

_SIZES_COUNT = 64
_REMAINDER_COUNT = 32
"""Sizes of one axis differ in their remainder by 32, the usual width of a loop's step; smaller ones
in their remainder by 8."""
_SMALL_STEP = 8
_PLAIN_PERIOD = 3
"""Each third one has powers of two where the pattern allows them: kernels have cases for those."""
_MAX_ELEMENTS = 2**16
_MIN_ELEMENTS = 1024
"""Below, a case is too small for a distribution to show anything."""
_ATTEMPTS = 2000
_PER_SIZE = 2
"""Distributions."""
_HUNDREDFOLD_WEIGHT = 4
"""A wrong maximum of a row shows only where the largest element stands out: in a few rows."""

Sizes = Mapping[str, int]


def add_distributions(kernel_folder: KernelFolder, cases: Sequence[CaseSpec]) -> None:
    """Let the smallest fair case and the last one run all distributions that are not skipped."""
    names = _list_distributions(kernel_folder.kernel)

    def count_elements(case: CaseSpec) -> int:
        return sum(math.prod(i["shape"]) for i in case["inputs"] if "shape" in i)

    fair = [case for case in cases if count_elements(case) >= _MIN_ELEMENTS]
    smallest = min(fair, key=count_elements, default=max(cases, key=count_elements))
    for case in (smallest, cases[-1]):
        case["distributions"] = list(names)


def _list_distributions(kernel: Kernel) -> list[Distribution]:
    if kernel.reference.recorded is not None:
        return []
    return [name for name in get_args(Distribution) if name not in kernel.hidden_inputs.skip]


def make_hidden_size_cases(kernel_folder: KernelFolder, target: Target) -> list[CaseSpec]:
    """Return cases of drawn sizes, with two distributions each; none where no axis varies.

    On a GPU there are none for integers that the kernel's own function makes, and for a reference
    that is compiled code or a variant none for any: an index outside of its array would end the
    judge. Nothing is known of other sizes than those that were recorded.
    """
    kernel = kernel_folder.kernel
    has_integers = any(
        i.dtype.startswith(("int", "uint")) for i in kernel.inputs if i.value is None
    )
    has_own_inputs = kernel.reference.inputs is not None
    is_code = kernel.reference.variant is not None or kernel.reference.is_compiled
    if (
        "sizes" in kernel.hidden_inputs.skip
        or kernel.reference.recorded is not None
        or (has_integers and has_own_inputs and target == "cuda")
        or (has_integers and is_code)
    ):
        return []
    rng = random.SystemRandom()
    names = _list_distributions(kernel)
    weights = [_HUNDREDFOLD_WEIGHT if name == "hundredfold" else 1 for name in names]
    cases = []
    for sizes in draw_sizes(kernel_folder, rng):
        case = make_case_spec(kernel_folder, f"{format_sizes(sizes)} (drawn by the judge)", sizes)
        case["distributions"] = list({*rng.choices(names, weights, k=_PER_SIZE)} if names else ())
        cases.append(case)
    return cases


def draw_sizes(kernel_folder: KernelFolder, rng: random.Random) -> list[Sizes]:
    """Return small sizes that kernel.yaml does not name, all different.

    An axis keeps what all sizes in kernel.yaml share: one value, powers of two, a common divisor,
    and that it equals, divides or does not exceed another axis.
    """
    kernel = kernel_folder.kernel
    named = [dict(sizes) for sizes in (*kernel.workloads.values(), *kernel.check_workloads)]
    drawn: list[Sizes] = []
    remainders = {axis: _iter_remainders(rng) for axis in kernel.axes}
    powers = {axis: _list_powers_of_two(axis, named, rng) for axis in kernel.axes}
    for attempt in range(_ATTEMPTS):
        if len(drawn) == _SIZES_COUNT:
            break
        is_plain = attempt % _PLAIN_PERIOD == 0
        sizes = {
            axis: powers[axis][attempt // _PLAIN_PERIOD % len(powers[axis])]
            if is_plain and powers[axis]
            else _draw_size(axis, named, next(remainders[axis]), rng)
            for axis in kernel.axes
        }
        _keep_equal_and_divisible(kernel, named, sizes)
        is_small = count_input_elements(kernel_folder, sizes) <= _MAX_ELEMENTS
        is_new = sizes not in named and sizes not in drawn
        if is_small and is_new and follows_pattern(kernel, named, sizes):
            drawn.append(sizes)
    return drawn


def _iter_remainders(rng: random.Random) -> Iterator[int]:
    """Yield all remainders in random order, then again in another one, without end."""
    while True:
        yield from rng.sample(range(_REMAINDER_COUNT), _REMAINDER_COUNT)


def _list_powers_of_two(axis: str, named: Sequence[Sizes], rng: random.Random) -> list[int]:
    """Return those between the least and the largest size of an axis, in random order."""
    known = [sizes[axis] for sizes in named]
    exponents = range((min(known) - 1).bit_length(), max(known).bit_length())
    return rng.sample([1 << exponent for exponent in exponents], len(exponents))


def _draw_size(axis: str, named: Sequence[Sizes], remainder: int, rng: random.Random) -> int:
    """Return one size of an axis, between those that are named: if these are few, all in turn."""
    known = sorted({sizes[axis] for sizes in named})
    if len(known) == 1:
        return known[0]
    if known[0] > 0 and all(size & (size - 1) == 0 for size in known):
        exponents = [size.bit_length() - 1 for size in known]
        return 1 << rng.randint(exponents[0], exponents[-1])
    step = math.gcd(*known)
    few = range(known[0], known[-1] + 1, step)
    if len(few) <= _REMAINDER_COUNT:
        return few[remainder % len(few)]
    size = round(math.exp(rng.uniform(math.log(known[0]), math.log(known[-1]))) / step)
    if step == 1 and size >= _SMALL_STEP:
        modulus = _REMAINDER_COUNT if size >= _REMAINDER_COUNT else _SMALL_STEP
        size += (remainder - size) % modulus
    return max(known[0], min(known[-1], size * step))


def follows_pattern(kernel: Kernel, named: Sequence[Sizes], sizes: Sizes) -> bool:
    """Return whether sizes have what all named ones share: divisors, and an order of the axes."""
    for axis in kernel.axes:
        if sizes[axis] % math.gcd(*(each[axis] for each in named)):
            return False
        for other in kernel.axes:
            is_ordered = all(each[axis] <= each[other] for each in named)
            if is_ordered and sizes[axis] > sizes[other]:
                return False
    return True


def _keep_equal_and_divisible(
    kernel: Kernel, named: Sequence[Sizes], sizes: dict[str, int]
) -> None:
    """Change drawn sizes where one axis is a multiple of an earlier or later one in all sizes."""
    for left in kernel.axes:
        for right in kernel.axes:
            if left == right or all(each[left] in (0, 1) for each in named):
                continue
            if all(each[left] == each[right] for each in named):
                sizes[right] = sizes[left]
            elif all(each[left] and each[right] % each[left] == 0 for each in named):
                sizes[right] = max(1, round(sizes[right] / sizes[left])) * sizes[left]
