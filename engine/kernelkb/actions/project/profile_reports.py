"""Reports of kb profile: the counters of each pass, and where the report of a record is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.recommend import recommend
from kernelkb.decide.rules import CompiledRules
from kernelkb.measure.machine.cached_facts import read_peak_metrics
from kernelkb.measure.profile.ncu import NextCounters
from kernelkb.model.records.measurement import Machine, Profile
from kernelkb.profiles.launch import RawName, list_raw_names

_ID_DIGITS = 12

_FIRST_RECIPES = ("ncu-quick", "ncu-mechanism")
_LAST_RECIPE = "ncu-source"


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


def _file_name(measurement: str) -> str:
    return f"{measurement[:_ID_DIGITS]}.ncu-rep"


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
