"""Times variants of the zoo's pairs against each other, one race after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from benchmarks.zoo.pairs import BuiltPair

from kernelkb.actions.project.bench_target import BenchTarget
from kernelkb.errors import KbError
from kernelkb.measure.bench.bench import StartedBench, make_job, start_bench, starts_ahead
from kernelkb.measure.subject import BenchOptions
from kernelkb.model.records.measurement import Bench

_AHEAD = 3
"""Races whose processes start while another is timed: importing torch takes longer than a race."""


class Race(NamedTuple):
    """The form before a change, to be timed against another variant of its pair."""

    pair: BuiltPair
    rival: BenchTarget


class _StartedRace(NamedTuple):
    """A race whose processes were started."""

    race: Race
    bench: StartedBench
    end: Callable[[], None]
    """Ends its processes."""


def run_races(races: Iterable[Race], budget_s: float) -> Iterator[tuple[Race, Bench | KbError]]:
    """Yield each race with its bench, or with why there is none.

    Args:
        races: In the order in which they are to be timed.
        budget_s: Seconds of timing for each.
    """
    waiting = deque(races)
    started: deque[_StartedRace] = deque()
    try:
        while waiting or started:
            while waiting and len(started) <= _count_ahead(waiting[0]):
                started.append(_start(waiting.popleft(), budget_s))
            race, bench, end = started.popleft()
            try:
                result: Bench | KbError = bench.run(BenchOptions().timeout_s)
            except KbError as error:
                result = error
            finally:
                end()
            yield race, result
    finally:
        for one in started:
            one.end()


def _count_ahead(race: Race) -> int:
    return _AHEAD if starts_ahead(race.pair.before.subject.machine) else 0


def _start(race: Race, budget_s: float) -> _StartedRace:
    pair, rival = race
    subject = pair.before.subject
    against = rival.subject, pair.builds[rival.subject.variant.id]
    options = BenchOptions(budget_s=budget_s, rival=against, only_rival=True)
    job = make_job(subject, pair.builds[pair.pair.before], pair.workload, options)
    stack = ExitStack()
    bench = stack.enter_context(start_bench(subject, pair.workload, job))
    return _StartedRace(race, bench, stack.close)
