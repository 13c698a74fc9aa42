"""Compares two reports of Nsight Compute, of kernels before and after a change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.actions.advice.recommend_report import answer_launch, iter_plausible_metrics
from kernelkb.actions.comparison.compare_choice import ReportChoice
from kernelkb.actions.comparison.compare_samples import (
    LaunchSamples,
    compare_samples,
    read_launch_samples,
)
from kernelkb.actions.comparison.compare_verdicts import (
    check_falsifier,
    compare_budgets,
    describe_binding,
    judge_time,
)
from kernelkb.actions.project.compare_launches import IndexedLaunch, pair_launches
from kernelkb.actions.project.kernel_patterns import compile_pattern, match_names
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.rules import CompiledRules
from kernelkb.decide.time_model import find_held_clock
from kernelkb.errors import BadValueError, KbError
from kernelkb.measure.machine.cached_facts import read_peak_metrics
from kernelkb.measure.machine.tools import find_cuda_tool
from kernelkb.model.answers.recommendation import KernelAnswer
from kernelkb.model.answers.report_comparison import KernelComparison, LaunchSide, ReportComparison
from kernelkb.profiles.launch import RawName, list_raw_names
from kernelkb.profiles.report import is_binary_report, read_report

MAX_KERNELS = 5
"""Most kernels that are compared at once, those that took the most time before."""
_MAX_WITH_SAMPLES = 3
"""Most kernels whose samples are compared: each launch takes a run of the disassembler."""
_TOO_MANY = f"only the first {_MAX_WITH_SAMPLES} kernels get them; --kernel picks others"
_MIN_CLOCK_CHANGE = 0.08
"""Least difference of two SM clocks that is told, as a share of the highest clock (judgement)."""
_INTERVAL = RawName("sampling interval", ("smsp__pcsamp_interval_cycles",), 1.0)
_NO_SAMPLES_IN_TABLES = "a CSV page holds no samples by instruction; a .ncu-rep file does"


class _Side(NamedTuple):
    """A launch of one report with what follows from its metrics."""

    choice: ReportChoice
    one: IndexedLaunch
    answer: KernelAnswer
    known: dict[str, float]

    @property
    def duration_us(self) -> float | None:
        return self.one.duration_us or None


def compare_reports(
    before: ReportChoice, now: ReportChoice, kernel_pattern: str | None = None
) -> ReportComparison:
    """Return what changed in each kernel that two reports share.

    Args:
        before: The report from before the change.
        now: That from after it.
        kernel_pattern: A regular expression; kernels whose name does not match are left out.

    Raises:
        KbError: A file is no report, or they share no kernel.
        BadValueError: An invalid regular expression, or a launch that a report does not hold.
    """
    rules = load_compiled_rules()
    held = {path: _read_launches(rules, path) for path in {before.path, now.path}}
    old, new = (
        _choose_launches(choice, held[choice.path], kernel_pattern) for choice in (before, now)
    )
    paired = pair_launches(old, new)
    if not paired.pairs:
        names = [", ".join(sorted({one.name for one in side})[:8]) for side in (old, new)]
        raise KbError(
            f"{before.path} and {now.path} share no kernel: {names[0]} before, {names[1]} now; "
            f"FILE#0 names the first launch of a report"
        )
    sides = [
        (_answer_side(rules, before, one), _answer_side(rules, now, other))
        for one, other in paired.pairs[:MAX_KERNELS]
    ]
    samples = _read_samples([side for pair in sides for side in pair])
    return {
        "kernels": [
            _compare_sides(rules, pair, (samples[2 * at], samples[2 * at + 1]))
            for at, pair in enumerate(sides)
        ],
        "only_before": [_describe_launch(before, one) for one in paired.only_before],
        "only_now": [_describe_launch(now, one) for one in paired.only_now],
        "left_out": len(paired.pairs) - len(sides),
    }


def _read_launches(rules: CompiledRules, path: Path) -> list[IndexedLaunch]:
    wanted = [*list_raw_names(rules), _INTERVAL]
    return [
        IndexedLaunch(at, launch, launch.metrics.pop(_INTERVAL.metric, None))
        for at, launch in enumerate(read_report(path, wanted, find_cuda_tool("ncu")))
    ]


def _choose_launches(
    choice: ReportChoice, launches: list[IndexedLaunch], kernel_pattern: str | None
) -> list[IndexedLaunch]:
    if choice.launch is not None:
        if choice.launch >= len(launches):
            raise BadValueError(
                f"{choice.path} holds {len(launches)} launches, so #{choice.launch} is none of "
                f"them; the last is #{len(launches) - 1}"
            )
        launches = [launches[choice.launch]]
    pattern = compile_pattern(kernel_pattern)
    names = match_names(pattern, {one.launch.kernel for one in launches})
    if not names:
        known = ", ".join(dict.fromkeys(one.name for one in launches[:8]))
        raise KbError(f"no kernel in {choice.path} matches {pattern.pattern!r}; it holds {known}")
    return [one for one in launches if one.launch.kernel in names]


def _answer_side(rules: CompiledRules, choice: ReportChoice, one: IndexedLaunch) -> _Side:
    answer = answer_launch(rules, one.launch, one.at, {}, None)
    sound = dict(iter_plausible_metrics(rules, one.launch, []))
    peaks = read_peak_metrics(answer["device"])
    known = complete_metrics(rules, {**peaks, **sound}, answer["device"])
    return _Side(choice, one, answer, known)


def _read_samples(sides: Sequence[_Side]) -> list[LaunchSamples]:
    """Return the samples of each side, in pairs of before and now, or why there are none."""
    reasons = [
        _TOO_MANY
        if at >= 2 * _MAX_WITH_SAMPLES
        else (None if is_binary_report(side.choice.path) else _NO_SAMPLES_IN_TABLES)
        for at, side in enumerate(sides)
    ]
    held = [side for side, reason in zip(sides, reasons, strict=True) if reason is None]
    found = iter(read_launch_samples([(side.choice.path, side.one.at) for side in held]))
    return [LaunchSamples(None, reason) if reason else next(found) for reason in reasons]


def _compare_sides(
    rules: CompiledRules, pair: tuple[_Side, _Side], samples: tuple[LaunchSamples, LaunchSamples]
) -> KernelComparison:
    before, now = pair
    durations = before.duration_us, now.duration_us
    ratio = round(durations[0] / durations[1], 4) if durations[0] and durations[1] else None
    counted = [side.counters for side in samples]
    return {
        "before": _describe_launch(before.choice, before.one),
        "now": _describe_launch(now.choice, now.one),
        "ratio": ratio,
        "time": compare_budgets(before.answer["time"], now.answer["time"], durations),
        "samples": compare_samples(counted[0], counted[1], durations)
        if counted[0] and counted[1]
        else None,
        "no_samples": next((side.reason for side in samples if side.reason), None),
        "falsifier": check_falsifier(before.answer, now.known, judge_time(*durations)),
        "binds": describe_binding(rules, before.answer, now.answer, counted[1]),
        "notes": _list_notes(rules, before, now, samples),
    }


def _describe_launch(choice: ReportChoice, one: IndexedLaunch) -> LaunchSide:
    return {
        "report": str(choice.path),
        "launch": one.at,
        "name": one.name,
        "kernel": one.launch.kernel,
        "grid": one.launch.shape[0],
        "block": one.launch.shape[1],
        "device": one.launch.device,
        "duration_us": one.duration_us or None,
    }


def _list_notes(
    rules: CompiledRules,
    before: _Side,
    now: _Side,
    samples: tuple[LaunchSamples, LaunchSamples],
) -> list[str]:
    """Return what makes the two launches hard to compare."""
    one, other = before.one, now.one
    notes: list[str] = []
    if one.launch.device != other.launch.device:
        names = [side.launch.device or "unknown" for side in (one, other)]
        notes.append(f"two GPUs, {names[0]} before and {names[1]} now")
    clock = rules["time_model"]["clock"]
    clocks = before.known.get(clock), now.known.get(clock)
    if clocks[0] and clocks[1] and abs(clocks[1] - clocks[0]) > _MIN_CLOCK_CHANGE:
        notes.append(
            f"the SM clock was {clocks[0]:.0%} of the highest before and is {clocks[1]:.0%} now; "
            f"durations differ by that, too"
        )
    if any(find_held_clock(rules["time_model"], side.known) for side in (before, now)):
        notes.append("the profiler held the SM clock; shares of the time are for the full clock")
    if one.interval != other.interval and all(side.counters for side in samples):
        notes.append(
            f"sampled every {one.interval or 0:.0f} cycles before and every "
            f"{other.interval or 0:.0f} now; compare shares, not counts"
        )
    counted = [note for side in samples if side.counters for note in side.counters.notes]
    return [*notes, *dict.fromkeys(counted)]
