"""Says what the cases have in common on which a variant is wrong, and which of them tells most."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from kernelkb.measure.job_specs import format_sizes
from kernelkb.measure.worker.shared.messages.specs import ArraySpec, CaseSpec
from kernelkb.model.records.measurement import CheckedCase

_TILES = (2, 4, 8, 16, 32, 64, 128, 256)
_FEW_RIGHT = 0.25
"""Of right cases that may be as all wrong ones are."""
_LEAST_TOLD = 64
"""Elements of an output from which on the place of wrong ones says something."""
_LEAST_COMPARED = 2
"""Right cases from which on a larger or smaller size says something."""
Sizes = Mapping[str, int]


def choose_told(failed: Sequence[CheckedCase], specs: Sequence[CaseSpec]) -> CheckedCase | None:
    """Return the failed case that tells most: the largest whose outputs' errors have a shape."""
    elements = {spec["name"]: max(map(_count_elements, spec["outputs"])) for spec in specs}
    if failed and not failed[0].error_shape:
        return failed[0]  # it ended with an error, or changed what is not its own

    def weigh(case: CheckedCase) -> tuple[bool, float]:
        count = elements.get(case.workload, 0)
        return count >= _LEAST_TOLD, (1 - case.matched_ratio) * count

    return max(failed, key=weigh, default=None)


def tell_failed(case: CheckedCase, when: str | None) -> str:
    """Return how a failed case is wrong, and on which other workloads the variant is."""
    return "; ".join(filter(None, [f"{case.workload}: {case.why}", when]))


def _count_elements(array: ArraySpec) -> int:
    return math.prod(array["shape"])


def list_sized_cases(
    cases: Sequence[CheckedCase], specs: Sequence[CaseSpec]
) -> list[tuple[dict[str, int], bool]]:
    """Return the sizes of each case that has any, and whether it is wrong."""
    sizes = {
        spec["name"]: dict(zip(spec["axis_names"], spec["axes"], strict=True)) for spec in specs
    }
    return [
        (sizes[case.workload], case.status == "incorrect")
        for case in cases
        if case.workload in sizes
    ]


def describe_when(cases: Sequence[tuple[Sizes, bool]]) -> str | None:
    """Return what wrong cases have in common, and right ones have not; None where nothing is known.

    Args:
        cases: Sizes by axis, and whether the answer was wrong.
    """
    wrong = [sizes for sizes, is_wrong in cases if is_wrong]
    right = [sizes for sizes, is_wrong in cases if not is_wrong]
    if len(cases) <= 1:
        return None
    if not wrong:
        return f"right on all {len(cases)} named workloads, wrong on hidden inputs"
    common = _find_common(wrong, right) if right else ""
    count = f"{len(wrong)} of {len(cases)}" if right else f"all {len(cases)}"
    smallest = min(wrong, key=lambda sizes: math.prod(max(1, size) for size in sizes.values()))
    least = f", the smallest {format_sizes(smallest)}" if wrong[1:] else ""
    return f"wrong on {count} workloads{common}{least}"


def _find_common(wrong: Sequence[Sizes], right: Sequence[Sizes]) -> str:
    """Return what sizes of wrong cases have in common, after a colon; empty: nothing is found."""
    ways = [
        way
        for axis in wrong[0]
        for way in _compare_axis(axis, [w[axis] for w in wrong], [r[axis] for r in right])
    ]
    for one, two in combinations(wrong[0], 2):
        if all(w[one] != w[two] for w in wrong):
            own = sum(r[one] != r[two] for r in right) / len(right)
            ways.append((own, f"{one} and {two} differ"))
    exact = [text for own, text in ways if own == 0]
    if exact:
        return f": each whose {', or whose '.join(exact[:2])}"
    near = [text for own, text in ways if own <= _FEW_RIGHT]
    return f": only where {near[0]}" if near and wrong[1:] else ""


def _compare_axis(
    axis: str, wrong: Sequence[int], right: Sequence[int]
) -> Iterator[tuple[float, str]]:
    """Yield what all wrong sizes of an axis are, each with the share of right ones that are so."""
    tiles = [
        (sum(size % tile > 0 for size in right) / len(right), tile)
        for tile in _TILES
        if all(size % tile for size in wrong)
    ]
    least = min((own for own, _ in tiles), default=1.0)
    if tiles:
        fits = [tile for own, tile in tiles if own == least]
        up_to = f" to {fits[-1]}" if fits[1:] else ""
        words = "is odd" if fits == [2] else f"is no multiple of {fits[0]}{up_to}"
        yield least, f"{axis} {words}"
    if least == 0 or len(right) < _LEAST_COMPARED:
        return
    if min(wrong) > max(right):
        yield 0.0, f"{axis} is above {max(right)}"
    if max(wrong) < min(right):
        yield 0.0, f"{axis} is below {min(right)}"
