"""Text of a search: its space, one line for each trial, and what it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kernelkb.model.tuning import (
    ConfirmedConfiguration,
    SimulatedSearch,
    SpaceSummary,
    TuningResult,
    TuningTrial,
)
from kernelkb.render.measurements import describe_bench
from kernelkb.render.units import format_duration
from kernelkb.tune.space import EnumeratedSpace

_MAX_RULE = 60
_SHOWN_TUNABLES = 5


def format_plan(title: str, space: EnumeratedSpace) -> list[str]:
    """Return the size of a space, what excludes how many combinations, and the values."""
    values = zip(space.names, space.values, strict=True)
    return [
        title,
        *format_space(space.describe()),
        *(f"  {name}: {', '.join(map(str, choices))}" for name, choices in values),
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


def format_trial(trial: TuningTrial, best: TuningTrial | None) -> str:
    """Return one line: number, configuration, time or reason, and the best time so far."""
    found = format_duration(trial.time_us) if trial.time_us else trial.status
    if trial.status == "same-code":
        found += f" ({trial.detail})"
    elif trial.detail:
        found += f": {trial.detail}"
    best_text = f"  best {format_duration(best.time_us)}" if best and best.time_us else ""
    configuration = format_configuration(trial.configuration)
    return f"{trial.number:4d}  {configuration}  {found}{best_text}"


def format_configuration(configuration: Mapping[str, int]) -> str:
    """Return the values of the tunables in one line."""
    return " ".join(f"{name}={value}" for name, value in configuration.items())


def format_result(result: TuningResult) -> list[str]:
    """Return the confirmed configurations, the trials by outcome, and what to do next."""
    counts = Counter(trial.status for trial in result.trials)
    outcomes = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    new_count = len(result.trials) - result.resumed_count
    rate = f", {60 * new_count / result.seconds:.0f} a minute" if result.seconds > 1 else ""
    lines = [
        f"{len(result.trials)} trials ({outcomes}); {result.resumed_count} of earlier runs; "
        f"{result.seconds:.0f} s{rate}"
    ]
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
    return [*lines, _format_next(result, result.confirmed[0])]


def _format_next(result: TuningResult, winner: ConfirmedConfiguration) -> str:
    is_default = result.default_us is not None and winner.low == winner.high == 1.0
    if is_default or (winner.low <= 1.0 and result.default_us is not None):
        return "next: nothing; no configuration is faster than the default beyond doubt"
    defines = " ".join(f"--define {name}={value}" for name, value in winner.configuration.items())
    return f"next: kb build {result.kernel} --variant {result.variant} {defines}"


def _format_confirmed(one: ConfirmedConfiguration) -> str:
    tie = ", tie with the fastest" if one.is_tie else ""
    interval = f"{one.gain:.3g}x [{one.low:.3g}, {one.high:.3g}]"
    configuration = format_configuration(one.configuration)
    return f"{format_duration(one.time_us):>10}  {interval}  {configuration}{tie}"


def format_simulation(found: SimulatedSearch) -> list[str]:
    """Return how many trials a replayed search needed."""
    solved = (
        f"within 5 % of the best after {found.solved_at} trials"
        if found.solved_at
        else f"not within 5 % of the best after {found.trial_count} trials"
    )
    return [
        f"{found.space}: {found.configuration_count:,} configurations, best {found.best_time:.4g}",
        f"{found.strategy}, seed {found.seed}: {solved} (found {found.found_time:.4g})",
    ]
