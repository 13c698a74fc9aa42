"""A profiler's reports: what kb profile counts, where a record's is, which kernels are meant."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.recommend import recommend
from kernelkb.decide.rules import CompiledRules
from kernelkb.errors import BadValueError
from kernelkb.measure.machine.cached_facts import read_peak_metrics
from kernelkb.measure.profile.ncu import NextCounters
from kernelkb.model.records.measurement import InputData, Machine, Profile
from kernelkb.profiles.launch import ProfiledLaunch, RawName, list_raw_names, simplify_kernel_name
from kernelkb.safety.files import keep_file

_ID_DIGITS = 12
_DATA_ENDING, _DATA = "data.json", TypeAdapter(tuple[InputData, ...])

_FIRST_RECIPES = ("ncu-quick", "ncu-mechanism")
_LAST_RECIPE = "ncu-source"

_SEARCH_SCRIPT = """
import json, re, sys
pattern, names = json.load(sys.stdin)
json.dump([name for name in names if re.search(pattern, name)], sys.stdout)
"""
_SEARCH_TIMEOUT_S = 2.0
"""A pattern that backtracks exponentially is stopped; other patterns take milliseconds."""

_LAUNCHES = r"[0-9]{1,9}(?:-[0-9]{1,9})?"
_CHOICE = re.compile(rf"(?P<path>.+?)(?:#(?P<launches>{_LAUNCHES}(?:,{_LAUNCHES})*))?", re.DOTALL)
_REPORT_NAME = re.compile(r".+\.(ncu-rep|csv)(#[0-9,-]+)?", re.DOTALL)
_MAX_CHOSEN = 10_000
"""Launches that a text may name; no report holds more."""


def make_next_counters(machine: Machine) -> NextCounters:
    """Return a function from the metrics known so far to the counters of the next pass.

    The first stage takes every counter of the quick and the mechanism recipe that a hypothesis
    could use, by name. On an H100 with a row softmax the quick counters alone take 2.0 s and both
    recipes 2.6 s, of which 1.9 s are the start of ncu: two passes cost more than one large pass.
    Counters per source line come last, and only if the best diagnosis needs them.
    """
    program = load_compiled_rules()

    def next_counters(known: Mapping[str, float]) -> Sequence[RawName]:
        first = _list_counters(program, _FIRST_RECIPES)
        if not any(name.metric in known for name in first):
            return first
        answer = recommend(
            program,
            known,
            target=machine.target,
            device=machine.device,
            peaks=read_peak_metrics(machine.device),
        )
        wanted = {row["metric"] for row in answer["measure_next"]}
        return [one for one in _list_counters(program, (_LAST_RECIPE,)) if one.metric in wanted]

    return next_counters


def list_first_counters() -> list[RawName]:
    """Return the counters of the first stage, which need no knowledge of the kernel."""
    return _list_counters(load_compiled_rules(), _FIRST_RECIPES)


def _list_counters(program: CompiledRules, recipes: Collection[str]) -> list[RawName]:
    """Return the raw names of the metrics of some recipes, in the order of the metrics."""
    raw = {name.metric: name for name in list_raw_names(program)}
    metrics = program["metrics"].items()
    return [raw[name] for name, row in metrics if name in raw and row["recipe"] in recipes]


def name_report_by_record(profiled: Profile) -> Profile:
    """Name the file of what was counted by instruction after the profile's record.

    Args:
        profiled: Without a record or such a file it stays as it is, or where renaming fails.
    """
    if profiled.report is None or profiled.measurement is None:
        return profiled
    file = Path(profiled.report)
    named = file.with_name(_file_name(profiled.measurement))
    try:
        file.replace(named)
    except OSError:  # the profile is worth more than the name of its file
        return profiled
    return profiled.model_copy(update={"report": str(named)})


def find_report(project: Path, measurement: str) -> Path | None:
    """Return the file of what was counted by instruction for the record of a profile."""
    file = project / ".kb" / "profiles" / _file_name(measurement)
    return file if file.is_file() else None


def _file_name(measurement: str, ending: str = "ncu-rep") -> str:
    return f"{measurement[:_ID_DIGITS]}.{ending}"


def keep_data(project: Path, profiled: Profile) -> None:
    """Keep what the inputs of a profile look like, under the name of its record, if it has both.

    Nothing is said where that fails: the answer of the profile itself has it.
    """
    if not profiled.data or profiled.measurement is None:
        return
    file = project / ".kb" / "profiles" / _file_name(profiled.measurement, _DATA_ENDING)
    keep_file(file, _DATA.dump_json(profiled.data))


def find_data(project: Path, measurement: str) -> tuple[InputData, ...]:
    """Return what the inputs of a recorded profile look like; empty where that is not known."""
    file = project / ".kb" / "profiles" / _file_name(measurement, _DATA_ENDING)
    try:
        return _DATA.validate_json(file.read_bytes())
    except (OSError, ValueError):  # none, or one of another release
        return ()


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
    others: tuple[int, ...] = ()
    """Further ones, of the same call."""

    def holds(self, at: int) -> bool:
        """Return whether the launch with an index is meant."""
        return self.launch in (None, at) or at in self.others


def choose_reports(before: str, now: str) -> tuple[ReportChoice, ReportChoice] | None:
    """Return the reports that two texts name, each ``FILE`` or ``FILE#LAUNCH``, ``FILE#2-5,7``.

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
    if found is None or found["launches"] is None or not _is_file(found["path"]):
        return None
    first, *others = _parse_launches(found["launches"])
    return ReportChoice(Path(found["path"]), first, tuple(others))


def _parse_launches(text: str) -> list[int]:
    """Return the indices that ``2-5,7`` names.

    Raises:
        BadValueError: A range runs backwards, or they are too many.
    """
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        span = range(int(first), int(last or first) + 1)
        if not span or len(found) + len(span) > _MAX_CHOSEN:
            raise BadValueError(f"#{text} names no launches; write #3, #2-5 or #2-5,7")
        found += span
    return found


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # too long for a name
        return False
