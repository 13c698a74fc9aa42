"""Text of a search: its progress, what it found, and why the winner is faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kernelkb.model.kernels.tuning import (
    ConfirmedConfiguration,
    FactChange,
    GainExplanation,
    LaneSummary,
    Rejection,
    SavedTime,
    SpaceSummary,
    TuningResult,
    TuningTrial,
    ValueConcentration,
)
from kernelkb.render.text.measurements import describe_bench
from kernelkb.units import format_duration, format_size

_MAX_PARTS = 5
_MAX_CHANGES = 10
_INSTRUCTIONS = "instructions"

_MAX_RULE = 60
_SHOWN_TUNABLES = 5
_MAX_EXAMPLE = 80
_MAX_BARS = 40
_BARS = "▁▂▃▄▅▆▇█"

_HEADER_INTERVAL = 30
_GATE_WIDTH = 12
_START_WIDTH = 44
"""Columns before the first tunable."""
PASSED = "passed"


def format_gain_explanation(why: GainExplanation) -> list[str]:
    """Return where time was saved, what differs in launch and counters, and in machine code."""
    lines = ["why it is faster than the default:"]
    lines += [f"  {describe_part(one)}" for one in why.parts[:_MAX_PARTS]]
    facts = [one for one in why.changes if one.unit != _INSTRUCTIONS]
    code = [one for one in why.changes if one.unit == _INSTRUCTIONS]
    for title, changes in (("differs", facts), ("instructions in the code", code)):
        if changes:
            told = "; ".join(describe_change(one) for one in changes[:_MAX_CHANGES])
            lines.append(f"  {title}: {told}")
    if why.no_counters:
        cure = f"; {why.cure}" if why.cure else ""
        lines.append(f"  no counters: {why.no_counters}{cure}")
    elif not why.parts and not why.changes:
        lines.append("  nothing that is counted differs by 5 %")
    if why.reports:
        lines.append(f"  line by line: kb compare {' '.join(why.reports)}")
    return lines


def describe_part(one: SavedTime) -> str:
    """Return what one part of the time saves or costs."""
    sides = [
        "below 2 %" if us is None else format_duration(us) for us in (one.default_us, one.winner_us)
    ]
    word = "saved" if one.saved_us >= 0 else "added"
    return f"{format_duration(abs(one.saved_us))} {word}: {one.title} ({sides[0]} -> {sides[1]})"


def describe_change(one: FactChange) -> str:
    """Return a fact of the default and of the winner."""
    default, winner = (format_value(value, one.unit) for value in (one.default, one.winner))
    return f"{one.title} {default} -> {winner}"


def format_value(value: float, unit: str) -> str:
    """Return a value in its unit: a share in percent, bytes as KiB or MiB."""
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "bytes":
        return format_size(int(value))
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def format_plan(title: str, space: SpaceSummary, values: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the size of a space, what excludes how many combinations, and the values.

    Args:
        title: What is searched, where.
        space: The counts.
        values: Of each tunable.
    """
    return [
        title,
        *format_space(space),
        *(f"  {name}: {', '.join(map(str, choices))}" for name, choices in values.items()),
    ]


def format_space(space: SpaceSummary) -> list[str]:
    """Return the counts of a space."""
    lines = [f"{space.feasible_count:,} of {space.combination_count:,} configurations are feasible"]
    lines += [
        f"  {rule.excluded_count:,} excluded: {_shorten(rule.rule)} ({rule.because})"
        for rule in space.rules
        if rule.excluded_count
    ]
    return lines


def _shorten(rule: str) -> str:
    return rule if len(rule) <= _MAX_RULE else f"{rule[: _MAX_RULE - 1]}…"


def format_configuration(configuration: Mapping[str, int]) -> str:
    """Return the values of the tunables in one line."""
    values = " ".join(f"{name}={value}" for name, value in configuration.items())
    return values or "as it is, without macros"


def format_result(result: TuningResult) -> list[str]:
    """Return what the trials show, the confirmed configurations, the verdict and what is next."""
    lines = [describe_trials(result), *format_convergence(result)]
    rejected = [f"  {line}" for line in describe_rejections(result)]
    lines += ["rejected:", *rejected] if rejected else []
    lines += describe_infeasible(result)
    lines += [_format_lane(lane) for lane in result.lanes]
    if not result.confirmed:
        return [*lines, "no configuration could be timed"]
    base = "the default" if result.default_us else "the slowest of these"
    lines.append(f"measured again, in turns; gain over {base}:")
    lines += [f"  {_format_confirmed(one)}" for one in result.confirmed]
    if result.importance:
        shares = [f"{name} {100 * share:.0f} %" for name, share in result.importance.items()]
        lines.append(
            f"what decides, by a model of all trials: {', '.join(shares[:_SHOWN_TUNABLES])}"
        )
    if result.bench is not None:
        lines.append(f"judged: {describe_bench(result.bench)}")
    if result.why is not None:
        lines += format_gain_explanation(result.why)
    if result.unrecorded:
        lines.append(f"not recorded: {result.unrecorded}")
    return [*lines, describe_next(result)]


def _format_lane(lane: LaneSummary) -> str:
    """Return what one device did."""
    busy = f"busy {100 * lane.busy_share:.0f} %"
    parts = [f"{lane.trial_count} trials in {lane.available_s:.0f} s", busy]
    if lane.busy_share_while_queued is not None:
        parts.append(f"{100 * lane.busy_share_while_queued:.0f} % while tasks were waiting")
    if lane.baseline_us is not None:
        parts.insert(0, f"the default in {format_duration(lane.baseline_us)}")
    if lane.left_out:
        parts.append(lane.left_out)
    return f"  {lane.uuid} of {lane.host}: {'; '.join(parts)}"


def describe_trials(result: TuningResult) -> str:
    """Return the trials by outcome, and what they took."""
    counts = Counter(trial.status for trial in result.trials)
    outcomes = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    new_count = len(result.trials) - result.resumed_count
    rate = f", {60 * new_count / result.seconds:.0f} a minute" if result.seconds > 1 else ""
    seeds = len(result.seeds)
    began = f"; began with {seeds} earlier winner{'s' if seeds > 1 else ''}" if seeds else ""
    return (
        f"{len(result.trials)} trials ({outcomes}); {result.resumed_count} of earlier runs; "
        f"{result.seconds:.0f} s{rate}{began}"
    )


def format_convergence(result: TuningResult) -> list[str]:
    """Return how the best time fell, as a line of bars, and when it was near the last one."""
    if not result.convergence:
        return []
    times = list_best_times(result)
    nearest = {one.trial_count: one for one in result.convergence}  # of equal ones, the last
    marks = [
        f"{_name_distance(one.within)} after {count} trials ({one.device_s:.1f} s)"
        for count, one in nearest.items()
    ]
    ends = f"{format_duration(times[0])} {_draw_bars(times)} {format_duration(times[-1])}"
    return [f"best so far: {ends}", f"  {', '.join(marks)}; seconds on the device"]


def _name_distance(within: float) -> str:
    return f"within {100 * within:.0f} % of the best" if within else "the best"


def list_best_times(result: TuningResult) -> list[float]:
    """Return the best time so far after each trial, in us, from the first that was timed on."""
    times: list[float] = []
    for trial in result.trials:
        if trial.time_us or times:
            times.append(min([*times[-1:], *([trial.time_us] if trial.time_us else [])]))
    return times


def _draw_bars(times: Sequence[float]) -> str:
    """Return up to 40 bars, whose height is the time between its best and its first value."""
    count = min(_MAX_BARS, len(times))
    last = max(1, count - 1)
    picked = [times[at * (len(times) - 1) // last] for at in range(count)]
    low, high = times[-1], times[0]
    steps = len(_BARS) - 1
    return "".join(
        _BARS[round(steps * (one - low) / (high - low))] if high > low else _BARS[0]
        for one in picked
    )


def describe_rejections(result: TuningResult) -> list[str]:
    """Return a line for each reason: how many, at which values, and an example."""
    return [_describe_rejection(one) for one in result.rejections]


def _describe_rejection(one: Rejection) -> str:
    text = f"{one.count} {one.status} ({100 * one.share:.0f} %)"
    at = ", ".join(describe_concentration(value, one) for value in one.concentrations)
    example = f"; {one.example[:_MAX_EXAMPLE]}" if one.example and _says_more(one) else ""
    return f"{text}{f': {at}' if at else ''}{example}"


def describe_infeasible(result: TuningResult) -> list[str]:
    """Return how many combinations were infeasible, and the rule that excluded most."""
    count = result.combination_count - result.feasible_count
    if not result.infeasible or not count:
        return []
    most = max(result.infeasible, key=lambda one: one.excluded_count)
    return [
        f"infeasible: {count:,} of {result.combination_count:,} combinations; "
        f"{most.excluded_count:,} by {_shorten(most.rule)} ({most.because})"
    ]


def _says_more(one: Rejection) -> bool:
    return one.status != "same-code"


def describe_concentration(value: ValueConcentration, rejection: Rejection) -> str:
    """Return how many of the rejections have a value, and of how many trials with it."""
    return (
        f"{value.rejected_count} of {rejection.count} with {value.tunable}={value.value} "
        f"(of {value.reached_count} such trials)"
    )


def summarize_result(result: TuningResult) -> str:
    """Return the search in one sentence: default, winner, gain, trials and what they took."""
    spent = f"{result.seconds / 60:.1f} min, {result.device_s:.0f} s on the device"
    searched = f"{len(result.trials)} trials of {result.feasible_count:,} configurations, {spent}"
    if not result.confirmed:
        return f"{result.workload}: no configuration could be timed; {searched}"
    first = result.confirmed[0]
    base = f"{format_duration(result.default_us)} -> " if result.default_us else ""
    gain = f"{first.gain:.3g}x [{first.low:.3g}, {first.high:.3g}]"
    verdict = "" if result.winner else ", not faster beyond doubt"
    if result.is_refused and result.bench is not None:
        verdict = f", refused by the judge ({result.bench.verdict})"
    judged = f"; judged: {describe_bench(result.bench)}" if result.bench else ""
    return (
        f"{result.workload}: {base}{format_duration(first.time_us)}, {gain}{verdict}, with "
        f"{format_configuration(first.configuration)}; {searched}{judged}"
    )


def describe_next(result: TuningResult) -> str:
    """Return what to do after a search."""
    if result.is_refused and result.bench is not None:
        cure = result.bench.cure or "correct the variant, or exclude such configurations"
        return f"next: the fastest one is {result.bench.verdict}: {cure}"
    if result.winner is None:
        return "next: nothing; no configuration is faster than the default beyond doubt"
    build = f"kb build {result.kernel} --variant {result.variant}"
    if result.measurement is not None:
        return f"next: {build} --tuned {result.workload}"
    defines = result.winner.configuration.items()
    return f"next: {build} {' '.join(f'--define {name}={value}' for name, value in defines)}"


def _format_confirmed(one: ConfirmedConfiguration) -> str:
    tie = ", tie with the fastest" if one.is_tie else ""
    interval = f"{one.gain:.3g}x [{one.low:.3g}, {one.high:.3g}]"
    configuration = format_configuration(one.configuration)
    return f"{format_duration(one.time_us):>10}  {interval}  {configuration}{tie}"


class TrialTable:
    """Formats each trial of one search as a row: number, time, speedup, gate, best, tunables."""

    def __init__(
        self,
        values: Mapping[str, Sequence[int]],
        default: Mapping[str, int],
        earlier: Sequence[TuningTrial] = (),
    ) -> None:
        """Start a table.

        Args:
            values: The values of each tunable.
            default: The default configuration; empty if there is none.
            earlier: Trials of runs before, which may hold the time of the default.
        """
        self._names = {name: _split_name(name) for name in values}
        self._widths = {
            name: max(len(word) for word in (*self._names[name], *map(str, values[name])))
            for name in values
        }
        self._default = dict(default)
        self._default_us: float | None = None
        self._row_count = 0
        for trial in earlier:
            self._note_default(trial)

    def format_trial(self, trial: TuningTrial, best: TuningTrial | None) -> list[str]:
        """Return the row of a trial; before the first and each thirtieth one, the header.

        The speedup is over the default configuration, once that is timed.

        Args:
            trial: The one that ended.
            best: The fastest so far; a trial that is the fastest itself has a star.
        """
        self._note_default(trial)
        rows = [] if self._row_count % _HEADER_INTERVAL else list(self._format_header())
        self._row_count += 1
        timed = trial.status == "timed" and trial.time_us is not None
        time_text = _format_time(trial.time_us) if timed and trial.time_us else ""
        is_best = timed and best is not None and best.number == trial.number
        best_text = _format_time(best.time_us) if best and best.time_us else ""
        values = " ".join(
            f"{trial.configuration.get(name, ''):>{width}}" for name, width in self._widths.items()
        )
        start = (
            f"{trial.number:>5} {time_text:>7} {self._format_speedup(trial):>7} "
            f"{_describe_gate(trial):{_GATE_WIDTH}} {best_text:>7}{'*' if is_best else ' '}"
        )
        return [*rows, f"{start:{_START_WIDTH}}{values}".rstrip()]

    def _note_default(self, trial: TuningTrial) -> None:
        if self._default and trial.configuration == self._default and trial.time_us:
            self._default_us = trial.time_us

    def _format_speedup(self, trial: TuningTrial) -> str:
        if trial.status != "timed" or not trial.time_us or self._default_us is None:
            return ""
        return f"{self._default_us / trial.time_us:.2f}x"

    def _format_header(self) -> Iterator[str]:
        """Yield the names of the columns; a name of several words stands in several lines."""
        height = max(map(len, self._names.values()), default=1)
        start = f"{'trial':>5} {'time':>7} {'speedup':>7} {'gate':{_GATE_WIDTH}} {'best':>7}"
        for line in range(height):
            words = []
            for name, width in self._widths.items():
                parts = self._names[name]
                at = line - (height - len(parts))
                words.append(f"{parts[at] if at >= 0 else '':>{width}}")
            yield f"{start if line == height - 1 else '':{_START_WIDTH}}{' '.join(words)}".rstrip()


def _describe_gate(trial: TuningTrial) -> str:
    return PASSED if trial.status == "timed" else trial.status


def _format_time(us: float) -> str:
    """Return a time with three digits: 14.4 us. Trials are too short for more."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= 0.9995 * size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} us"


def _split_name(name: str) -> list[str]:
    """Return the words of a tunable: ``BLOCK``, ``M``."""
    return [word for word in name.split("_") if word]
