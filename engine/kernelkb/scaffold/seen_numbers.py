"""Which values of the numbers that launches passed are kept, and which sizes are workloads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kernelkb.scaffold.draft import WORKLOADS, to_field_name

_MAX_WORKLOADS = 6
VARIES = "varies"
"""Stands for the value of a number until one of those that were seen is chosen."""


class FixedNumbers(NamedTuple):
    """Numbers that differ between launches, and size no array, with the values that are kept."""

    kept: Sequence[int]
    """The launches that have these values."""
    answers: Mapping[str, str]
    warnings: Sequence[str]


def fix_numbers(
    numbers: Mapping[str, Sequence[float]],
    kinds: Mapping[str, str],
    answers: Mapping[str, str],
    calls: Sequence[int],
) -> FixedNumbers:
    """Return the most frequent values of the numbers that are to be one; of as frequent the first.

    A reference, given arrays and sizes, could not tell workloads apart that differ in a number.

    Args:
        numbers: Values of each in each launch.
        kinds: Types of C++.
        answers: What is said of each; ``VARIES`` of those that are to be one.
        calls: How often each launch was made.
    """
    names = [name for name, value in answers.items() if value == VARIES]
    rows = [tuple(numbers[name][at] for name in names) for at in range(len(calls))]
    counts: Counter[tuple[float, ...]] = Counter()
    for row, count in zip(rows, calls, strict=True):
        counts[row] += count
    chosen, count = counts.most_common(1)[0]
    kept = [at for at, row in enumerate(rows) if row == chosen]
    if not names:
        return FixedNumbers(kept, {}, ())
    said, other = (
        {n: write_number(v, kinds[n]) for n, v in zip(names, row, strict=True)}
        for row in (chosen, next(row for row in counts if row != chosen))
    )
    text = (
        f"{', '.join(names)}: {len(counts)} sets of values in the run, and no size of an array; "
        f"{', '.join(f'{name}={value}' for name, value in said.items())} is kept, and "
        f"{counts.total() - count} of {counts.total()} launches with others are left out; say "
        f"others, as {' '.join(f'--set {name}={value}' for name, value in other.items())}"
    )
    return FixedNumbers(kept, said, (text,))


def answer_workloads(
    answers: Mapping[str, str], numbers: Mapping[str, Sequence[float]], calls: Sequence[int]
) -> tuple[dict[str, str], list[str]]:
    """Return the sizes that were seen as workloads, and which launches are of none of them.

    The most frequent comes first; of as frequent the largest.
    """
    axes = [name for name, value in answers.items() if value == "axis"]
    if not axes:
        return {}, []
    counts: Counter[tuple[int, ...]] = Counter()
    for at, count in enumerate(calls):
        counts[tuple(int(numbers[axis][at]) for axis in axes)] += count
    ordered = sorted(counts, key=lambda sizes: (-counts[sizes], -math.prod(sizes)))
    kept = ordered[:_MAX_WORKLOADS]
    names = [*map(to_field_name, axes)]
    texts = [
        ", ".join(f"{name}: {size}" for name, size in zip(names, row, strict=True)) for row in kept
    ]
    left = counts.total() - sum(counts[sizes] for sizes in kept)
    text = f"{left} of {counts.total()} launches, with other sizes, are left out; {len(kept)} sizes"
    return {WORKLOADS: " | ".join(texts)}, [f"{text} are workloads"] if left else []


def write_number(value: float, kind: str) -> str:
    """Return a number as a literal of a type of C++."""
    if kind == "bool":
        return str(bool(value)).lower()
    if kind not in ("float", "double", "half", "__half"):
        return str(int(value))
    return repr(float(f"{value:.9g}")) + ("f" if kind == "float" else "")
