"""Kernels of a report: chosen by number or name, and paired by their launches."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Hashable, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import BadValueError
from kernelkb.profiles.launch import ProfiledLaunch, simplify_kernel_name

_SEARCH_SCRIPT = """
import json, re, sys
pattern, names = json.load(sys.stdin)
json.dump([name for name in names if re.search(pattern, name)], sys.stdout)
"""
_SEARCH_TIMEOUT_S = 2.0
"""A pattern that backtracks exponentially is stopped; other patterns take milliseconds."""

_CHOICE = re.compile(r"(?P<path>.+?)(?:#(?P<launch>[0-9]{1,9}))?", re.DOTALL)
_REPORT_NAME = re.compile(r".+\.(ncu-rep|csv)(#[0-9]+)?", re.DOTALL)


def compile_pattern(only: str | None) -> re.Pattern[str]:
    """Return ``--kernel`` as a pattern; one that matches everything by default.

    Raises:
        BadValueError: It is no regular expression.
    """
    try:
        return re.compile(only or "")
    except re.error as error:
        raise BadValueError(f"--kernel {only!r} is not a regular expression: {error}") from error


def match_names(pattern: re.Pattern[str], names: Collection[str]) -> set[str]:
    """Return the names that match a pattern.

    A pattern with repetitions can take exponential time, and a running match cannot be stopped, so
    it runs in a process of its own.

    Raises:
        BadValueError: The match took too long.
    """
    if not re.search(r"[*+?{]", pattern.pattern):
        return {name for name in names if pattern.search(name)}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _SEARCH_SCRIPT],
            input=json.dumps([pattern.pattern, list(names)]),
            capture_output=True,
            text=True,
            check=True,
            timeout=_SEARCH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise BadValueError(
            f"--kernel {pattern.pattern!r} takes longer than {_SEARCH_TIMEOUT_S:g} s to match; "
            f"remove nested repetitions"
        ) from error
    return set(json.loads(done.stdout))


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


class ReportChoice(NamedTuple):
    """A report, and the launch of it that is meant."""

    path: Path
    launch: int | None
    """Its index, from 0; None for all."""


def choose_reports(before: str, now: str) -> tuple[ReportChoice, ReportChoice] | None:
    """Return the reports that two texts name, each ``FILE`` or ``FILE#LAUNCH``.

    Returns:
        None if one of them is no file; then they name measurements.

    Raises:
        BadValueError: One is a file, and the other is named as a report that does not exist.
    """
    old, new = _parse_choice(before), _parse_choice(now)
    if old and new:
        return old, new
    for text, choice in ((before, old), (now, new)):
        if choice is None and _REPORT_NAME.fullmatch(text):
            raise BadValueError(f"no file {text}; two reports, FILE or FILE#LAUNCH, are compared")
    return None


def _parse_choice(text: str) -> ReportChoice | None:
    if _is_file(text):
        return ReportChoice(Path(text), None)
    found = _CHOICE.fullmatch(text)
    if found is None or found["launch"] is None or not _is_file(found["path"]):
        return None
    return ReportChoice(Path(found["path"]), int(found["launch"]))


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # too long for a name
        return False
