"""Pairs the launches of two reports: those of one kernel before and after a change."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from kernelkb.profiles.launch import ProfiledLaunch

_ANONYMOUS = ("(anonymous namespace)::", "<unnamed>::")
_OPERATOR = re.compile(r"operator\s*(<<|>>|<=>|<=|>=|->|<|>|\(\))")
"""Operators whose names hold brackets."""


class IndexedLaunch(NamedTuple):
    """A launch and its index in its report."""

    at: int
    launch: ProfiledLaunch
    interval: float | None = None
    """Cycles between two samples of an SM; None without samples."""

    @property
    def name(self) -> str:
        """The kernel's name without what changes with types."""
        return simplify_kernel_name(self.launch.kernel)

    @property
    def duration_us(self) -> float:
        """Time under the profiler; 0 if the report does not say."""
        return self.launch.metrics.get("profiled_us", 0.0)


class Pairing(NamedTuple):
    """The launches that belong together, and the others."""

    pairs: list[tuple[IndexedLaunch, IndexedLaunch]]
    """The longest before first."""
    only_before: list[IndexedLaunch]
    only_now: list[IndexedLaunch]


def simplify_kernel_name(kernel: str) -> str:
    """Return a kernel's name without return type, template arguments and parameters.

    Args:
        kernel: Such as ``void <unnamed>::scale<float, (int)4>(const float *)``, here ``scale``.
    """
    text = _OPERATOR.sub("operator", kernel)
    for noise in _ANONYMOUS:
        text = text.replace(noise, "")
    depth, kept = 0, []
    for character in text:
        depth += character == "<"
        if not depth:
            if character == "(":
                break
            kept.append(character)
        depth -= character == ">" and depth > 0
    words = "".join(kept).split()
    return words[-1] if words else kernel


def choose_launches(launches: Sequence[IndexedLaunch]) -> list[IndexedLaunch]:
    """Return the longest launch of each kernel and shape, in the order of the report."""
    longest: dict[tuple[str, tuple[str, str]], IndexedLaunch] = {}
    for one in launches:
        key = (one.launch.kernel, one.launch.shape)
        if key not in longest or one.duration_us > longest[key].duration_us:
            longest[key] = one
    return sorted(longest.values(), key=lambda one: one.at)


def pair_launches(before: Sequence[IndexedLaunch], now: Sequence[IndexedLaunch]) -> Pairing:
    """Return the launches of both reports that are of one kernel.

    They are matched by name; if each report has one kernel only, these match whatever their names.
    Of several launches of one name those with the same arguments of the template belong together,
    then those with the same grid and block, then those at the same position.
    """
    old, new = choose_launches(before), choose_launches(now)
    is_single = len({one.name for one in old}) == 1 == len({one.name for one in new})
    pairs: list[tuple[IndexedLaunch, IndexedLaunch]] = []
    keys: tuple[Callable[[IndexedLaunch], Hashable], ...] = (
        lambda one: (one.launch.kernel, one.launch.shape),
        lambda one: one.launch.kernel,
        lambda one: (one.name, one.launch.shape),
        lambda one: one.name,
        *((lambda _: "",) if is_single else ()),
    )
    for key in keys:
        pairs += _take_equal(old, new, key)
    return Pairing(sorted(pairs, key=lambda pair: -pair[0].duration_us), old, new)


def _take_equal(
    old: list[IndexedLaunch], new: list[IndexedLaunch], key: Callable[[IndexedLaunch], Hashable]
) -> list[tuple[IndexedLaunch, IndexedLaunch]]:
    """Remove the launches with equal keys from both lists, and return them in pairs."""
    taken = []
    for one in list(old):
        other = next((other for other in new if key(other) == key(one)), None)
        if other is not None:
            old.remove(one)
            new.remove(other)
            taken.append((one, other))
    return taken
