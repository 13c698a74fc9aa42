"""Replays the optimisation of recorded kernels with several flaws, with and without a memory.

Each state of a walk is recorded (``record_walks.py``): its time, its metrics, the rules of Nsight
Compute. A strategy sees the present state and tries one change; a change that is more than 5 %
faster is taken, another one is undone. Counted are the changes until the time is within 10 % of the
best state, and how many were tried that had been refuted before while the same cause was found.

All strategies remember what they tried in vain in the present state, until their context is cut:
after a change that was taken, and after any other one with a probability of one half. Only the last
one asks what the history keeps.
"""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from benchmarks.zoo.score import NCU_CAUSES

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.past_changes import TriedChange, reorder_by_history
from kernelkb.decide.recommend import recommend
from kernelkb.model.answers.recommendation import Diagnosis, KernelAnswer
from kernelkb.model.records.history import AdvisedChange, ChangeOutcome, ChangeResult

_RECORDED = Path(__file__).parent / "walks" / "h100-sxm.jsonl.xz"
_GAIN = 1.05
_NEAR = 1.1
_MAX_STEPS = 60
_CUT = 0.5
_SEEDS = 8
HELD_OUT = ("wave_step", "total_error", "sort_small", "far_chain", "reorder_axes")
"""Walks that were not looked at while the memory was written."""

State = frozenset[str]


class Walk(NamedTuple):
    """A kernel with several flaws."""

    name: str
    toggles: dict[str, list[str]]
    """By macro, the fixes that it applies, each of which an assistant may call it."""
    times: dict[State, float]
    metrics: dict[State, dict[str, float]]
    rules: dict[State, list[tuple[str, float]]]


class Trial(NamedTuple):
    """A change that was tried."""

    toggle: str
    fixes: tuple[str, ...]
    """All that the change is."""
    cause: str
    gain: float


class Played(NamedTuple):
    """How a strategy did."""

    steps: int
    repeats: int
    solved: bool


Strategy = Callable[[Walk, State, list[Trial], random.Random], Iterator[tuple[str, str, str]]]
"""Yields (toggle, fix, cause), the most promising first."""


def load_walks() -> list[Walk]:
    """Return the recorded walks."""
    text = lzma.decompress(_RECORDED.read_bytes()).decode()
    rows = [json.loads(line) for line in text.splitlines()]
    walks = []
    for name in dict.fromkeys(row["walk"] for row in rows):
        own = [row for row in rows if row["walk"] == name]
        states = {frozenset(row["state"]): row for row in own}
        walks.append(
            Walk(
                name,
                own[0]["toggles"],
                {state: row["us"] for state, row in states.items()},
                {state: row["metrics"] for state, row in states.items()},
                {
                    state: [(rule, share or 0.0) for rule, _, share in row["rules"]]
                    for state, row in states.items()
                },
            )
        )
    return walks


def choose_at_random(
    walk: Walk, state: State, _history: list[Trial], draw: random.Random
) -> Iterator[tuple[str, str, str]]:
    """Yield what is left, in any order."""
    left = sorted(walk.toggles.keys() - state)
    draw.shuffle(left)
    for toggle in left:
        yield toggle, walk.toggles[toggle][0], ""


def choose_by_rules(
    walk: Walk, state: State, history: list[Trial], draw: random.Random
) -> Iterator[tuple[str, str, str]]:
    """Yield fixes of the causes that Nsight Compute's rules mean, the largest estimate first."""
    rules = load_compiled_rules()
    fixes = {row["id"]: row["fixes"] for row in rules["bottlenecks"]["cuda"]}
    for rule, _ in sorted(walk.rules[state], key=lambda one: -one[1]):
        for cause in sorted(NCU_CAUSES.get(rule, ())):
            yield from _match(walk, state, fixes.get(cause, []), cause)
    yield from choose_at_random(walk, state, history, draw)


def choose_by_advice(
    walk: Walk, state: State, history: list[Trial], draw: random.Random
) -> Iterator[tuple[str, str, str]]:
    """Yield our fixes in their order."""
    yield from _list_advice(walk, state, _ask(walk, state)["diagnoses"])
    yield from choose_at_random(walk, state, history, draw)


def choose_with_memory(
    walk: Walk, state: State, history: list[Trial], draw: random.Random
) -> Iterator[tuple[str, str, str]]:
    """Yield our fixes, ordered by what was tried before."""
    answer = _ask(walk, state)
    tried = [_make_change(trial) for trial in history]
    undoes = {name: row["undoes"] for name, row in load_compiled_rules()["fixes"].items()}
    diagnoses = reorder_by_history(answer["diagnoses"], tried, undoes).diagnoses
    spent = {(trial.toggle, trial.cause) for trial in history if trial.gain < _GAIN}
    for toggle, fix, cause in _list_advice(walk, state, diagnoses):
        if (toggle, cause) not in spent:  # the answer says so beside the fix
            yield toggle, fix, cause
    refuted = {trial.toggle for trial in history if trial.gain < _GAIN}
    for one in choose_at_random(walk, state, history, draw):
        if one[0] not in refuted:  # what was refuted is not tried for want of anything else
            yield one


def _ask(walk: Walk, state: State) -> KernelAnswer:
    return recommend(
        load_compiled_rules(), walk.metrics[state], device="h100-sxm", kernel=walk.name
    )


def _list_advice(
    walk: Walk, state: State, diagnoses: Sequence[Diagnosis]
) -> Iterator[tuple[str, str, str]]:
    for diagnosis in diagnoses:
        if diagnosis["verdict"] == "matches":
            names = [fix["id"] for fix in diagnosis["fixes"]]
            yield from _match(walk, state, names, diagnosis["bottleneck"])


def _match(
    walk: Walk, state: State, fixes: list[str], cause: str
) -> Iterator[tuple[str, str, str]]:
    """Yield the macros that apply some fixes, in the order of the fixes."""
    for fix in fixes:
        for toggle, names in walk.toggles.items():
            if fix in names and toggle not in state:
                yield toggle, fix, cause


def _make_change(trial: Trial) -> TriedChange:
    result: ChangeResult = "no-gain" if trial.gain > 0.95 else "slower"
    if trial.gain >= _GAIN:
        result = "faster"
    outcome = ChangeOutcome(
        parent="0" * 32,
        fixes=trial.fixes,
        recognised_by="said",
        advised=AdvisedChange(bottleneck=trial.cause or "unknown", fix=trial.fixes[0]),
        bottleneck=trial.cause or None,
        measured=trial.gain,
        interval=(trial.gain * 0.99, trial.gain * 1.01),
        result=result,
    )
    return TriedChange("0" * 32, "today", outcome, trial.gain >= _GAIN)


def _find_goal(walk: Walk) -> float:
    return min(walk.times.values()) * _NEAR


def play(walk: Walk, strategy: Strategy, state: State, seed: int) -> Played:
    """Optimise a walk from a state."""
    draw = random.Random(seed)
    goal = _find_goal(walk)
    history: list[Trial] = []
    since_change: set[str] = set()
    repeats = steps = 0
    while walk.times[state] > goal and steps < _MAX_STEPS:
        proposals = strategy(walk, state, history, draw)
        found = next((one for one in proposals if one[0] not in since_change), None)
        if found is None:
            break
        toggle, _, cause = found
        steps += 1
        repeats += any(
            old.toggle == toggle and old.gain < _GAIN and old.cause in (cause, "")
            for old in history
        )
        after = state | {toggle}
        gain = walk.times[state] / walk.times[after]
        history.append(Trial(toggle, tuple(walk.toggles[toggle]), cause, gain))
        since_change.add(toggle)
        if gain >= _GAIN:
            state = after
        if gain >= _GAIN or draw.random() < _CUT:
            since_change = set()
    return Played(steps, repeats, walk.times[state] <= goal)


STRATEGIES: dict[str, Strategy] = {
    "random": choose_at_random,
    "ncu rules": choose_by_rules,
    "without memory": choose_by_advice,
    "with memory": choose_with_memory,
}


def main() -> None:
    """Print steps to the best state and refuted changes that were repeated, for each strategy."""
    walks = load_walks()
    print(f"{'walk':16}" + "".join(f"{name:>28}" for name in STRATEGIES))
    totals: dict[tuple[bool, str], list[Played]] = {}
    walks = [walk for walk in walks if max(walk.times.values()) > _find_goal(walk)]
    for walk in sorted(walks, key=lambda one: one.name in HELD_OUT):
        cells = []
        for name, strategy in STRATEGIES.items():
            played = [
                play(walk, strategy, state, seed)
                for state in walk.times
                for seed in range(_SEEDS)
                if walk.times[state] > _find_goal(walk)
            ]
            totals.setdefault((walk.name in HELD_OUT, name), []).extend(played)
            cells.append(_format(played))
        print(f"{walk.name:16}" + "".join(f"{cell:>28}" for cell in cells))
    for held_out, title in ((False, "known"), (True, "held out")):
        rows = [
            _format(totals[held_out, name]) for name in STRATEGIES if (held_out, name) in totals
        ]
        print(f"{title:16}" + "".join(f"{cell:>28}" for cell in rows))
    everything = {
        name: [one for held in (False, True) for one in totals.get((held, name), [])]
        for name in STRATEGIES
    }
    with_memory = mean(one.steps for one in everything["with memory"])
    for name in STRATEGIES:
        steps = mean(one.steps for one in everything[name])
        print(f"steps with memory / {name}: {with_memory / steps:.2f}")


def _format(played: list[Played]) -> str:
    solved = mean(one.solved for one in played)
    steps, repeats = mean(one.steps for one in played), mean(one.repeats for one in played)
    return f"{steps:.1f} steps, {repeats:.1f} again, {solved:.0%}"


if __name__ == "__main__":
    main()
