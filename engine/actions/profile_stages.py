"""Which counters are worth collecting next: the engine decides, the profiler obeys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelkb.actions.rules_cache import load_compiled_rules
from kernelkb.decide.recommend import recommend
from kernelkb.measure.profile import NextCounters
from kernelkb.model.measurement import Machine
from kernelkb.profiles.launch import RawName, list_raw_names

_FIRST_RECIPES = ("ncu-quick", "ncu-mechanism")
_LAST_RECIPE = "ncu-source"


def make_next_counters(machine: Machine) -> NextCounters:
    """Return what decides the stages of a profile on a machine.

    The first stage takes every counter of the quick and the mechanism recipe that a hypothesis
    could use, by name. Quick counters alone would take 2.0 s of the 2.6 s (H100, a row softmax):
    1.9 s are ncu's own start, so asking twice costs more than asking for more. What is counted for
    each source line comes last, and only where the best diagnosis still wants it.
    """
    program = load_compiled_rules()
    raw = {one.metric: one for one in list_raw_names(program)}

    def next_counters(known: Mapping[str, float]) -> Sequence[RawName]:
        recipes = {name: row["recipe"] for name, row in program["metrics"].items() if name in raw}
        first = [raw[name] for name, recipe in recipes.items() if recipe in _FIRST_RECIPES]
        if not any(one.metric in known for one in first):
            return first
        answer = recommend(program, known, target=machine.target, device=machine.device)
        wanted = {row["metric"] for row in answer["measure_next"]}
        return [raw[n] for n, recipe in recipes.items() if recipe == _LAST_RECIPE and n in wanted]

    return next_counters
