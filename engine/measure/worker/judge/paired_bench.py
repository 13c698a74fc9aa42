"""Time candidate and rivals in turn, by the judge's own clock, on contents that change each time.

A window is one call on each of some slots, each slot once. Before it, the judge changes all inputs
and poisons all outputs; at its end, the judge stops the runner and looks at outputs that it
chooses then, so that nothing that was put off can be made up for. Raw times only; no verdict.
"""

from __future__ import annotations

import random
import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from kernelkb.measure.worker.judge.buffers import Stage
from kernelkb.measure.worker.judge.inputs import Task
from kernelkb.measure.worker.judge.runner_process import Partner
from kernelkb.measure.worker.judge.runner_timer import CALL_S, Side, Window
from kernelkb.measure.worker.judge.sampling import EVERY, Review
from kernelkb.measure.worker.shared.failures import Refused, RunnerLost

Job = dict[str, Any]
_T = TypeVar("_T")

CANDIDATE = "candidate"
_PROBES = 3
_TRIALS = 5
_LARGE = 2**31
_GRAPH_GAINS = 8.0  # at most so much shorter is a call in a graph: a launch of some 15 us is 2 us


def measure(job: Job, folder: Path, partners: dict[str, Partner]) -> Job:
    """Return raw times of windows, in pairs of candidate and rival.

    ``{"candidate": [window, …], "rival": [window, …], "rivals": {…}, …}`` with windows as in
    ``Window``; or ``{"lost": {"status", "detail"}}`` when the candidate did not last,
    ``{"baseline": text}`` when its rival did not, and ``{"wrong": text}`` when a timed call was
    wrong. Whose turn it is stands in ``progress``, for whoever loses patience.
    """
    match = Match(job, partners, folder / "progress")
    try:
        return match.play()
    except (RunnerLost, Refused) as lost:
        if lost.who != CANDIDATE:
            return {"baseline": f"{lost.who}: {lost}"}
        status = lost.status if isinstance(lost, RunnerLost) else "kernel-error"
        return {"lost": {"status": status, "detail": str(lost)}}


class Match:
    """Candidate against the best of its rivals, on one workload."""

    def __init__(self, job: Job, partners: dict[str, Partner], progress: Path) -> None:
        self._job, self._progress = job, progress
        self._candidate = partners[CANDIDATE]
        self._rivals = {name: one for name, one in partners.items() if name != CANDIDATE}
        self._task = Task(job, job["cases"][0])
        self._draw = random.Random(secrets.randbits(64))
        self._stage = self._staged(2)
        self._quiet_ns = self._stage.quiet_ns()  # before there is any code of the candidate's
        # A graph keeps every temporary of every call; calls that long are no launches anyway.
        self._graph = job["target"] == "cuda" and job["working_set_bytes"] < _LARGE
        self._rejected: dict[str, str] = {}
        self._copies: dict[str, float] = {}

    def _staged(self, slots: int) -> Stage:
        return Stage(
            self._task,
            self._job["tolerances"],
            slots,
            self._draw,
            flush_bytes=max(4, 2 * self._job["cache_bytes"]),
        )

    def play(self) -> Job:
        """Choose slots and rival, then take windows in pairs until the time is up."""
        candidate, rivals = self._loaded()
        first = self._series(candidate, _PROBES)
        times = [first, *self._timed_alone(rivals)]
        self._stage.close()
        shortest = min(times) / (_GRAPH_GAINS if self._graph else 1.0)
        self._stage = self._staged(self._calls(shortest) + 1)
        candidate = self._side(self._candidate)
        candidate.plan(self._calls(first), graph=False)
        eager = self._series(candidate, _TRIALS)
        fast = self._in_graph(candidate, self._calls(eager)) if self._graph else None
        why = candidate.why
        seen = self._compared()
        best, graph = _opponent(seen, graph=fast is not None)
        self._dismiss(*(name for name in self._rivals if name != best))
        rival = self._side(self._rivals[best])
        if graph:
            rival.plan(self._calls(seen[best]["graph_ns"]), graph=True)
            candidate.plan(self._calls(fast or eager), graph=rival.graph)
        graph = graph and rival.graph and candidate.graph
        if not graph:
            rival.plan(self._calls(seen[best]["eager_ns"]), graph=False)
            candidate.plan(self._calls(eager), graph=False)
        result = self._pairs(candidate, rival)
        self._stage.close()
        return {
            **result,
            "rival": best,
            "rivals": seen,
            "rejected": self._rejected,
            "graph": graph,
            "graph_why": None if graph else why,
            "eager_ns": eager,
            "layers": self._candidate.layers,
            "copy_ns": self._copied(),
            "quiet_ns": self._quiet_ns,
        }

    def _copied(self) -> float | None:
        """Return what copies of a call's outputs take; None where nobody copies any."""
        copies = self._job["returns"] and self._job["target"] == "cuda"
        return max(self._copies.values()) if copies else None

    def _calls(self, call_ns: float) -> int:
        """Return how many calls make a window long enough to be timed from outside.

        Asked again after the first windows: a candidate that is slow at first must not get windows
        that are too short later.
        """
        wanted = int(self._job["window_ns"] / max(1.0, call_ns)) + 1
        each = self._job["working_set_bytes"] + 4096
        room = self._job["arena_bytes"] // each - 1
        return int(max(1, min(wanted, self._job["most_slots"], room)))

    def _side(self, partner: Partner) -> Side:
        return Side(partner, self._stage, self._draw)

    def _series(self, side: Side, count: int) -> float:
        """Return the median nanoseconds of a call, eagerly, over some windows."""
        times = []
        self._say(side.name)
        for _ in range(count):
            window, _ = side.window()
            times.append(window.inner_ns / window.calls)
            if side.name != CANDIDATE:
                self._copies[side.name] = window.copy_ns / window.calls
        return statistics.median(times)

    def _loaded(self) -> tuple[Side, dict[str, Side]]:
        """Load the candidate while all others stand still, then the rivals side by side."""
        with ThreadPoolExecutor() as pool:
            entered = pool.submit(self._candidate.enter)
            self._each(pool, Partner.enter)
            entered.result()
            self._say(CANDIDATE)
            candidate = self._first(self._candidate)
            self._say("its baselines")
            return candidate, self._each(pool, self._first)

    def _say(self, whose: str) -> None:
        self._progress.write_text(whose, encoding="utf-8")

    def _each(self, pool: Executor, do: Callable[[Partner], _T]) -> dict[str, _T]:
        """Do something to all rivals at once; return what came of it where it did not fail."""
        futures = {name: pool.submit(do, one) for name, one in self._rivals.items()}
        found = {}
        for name, future in futures.items():
            with self._judged_by_itself(name):
                found[name] = future.result()
        return found

    def _first(self, partner: Partner) -> Side:
        partner.ask("load", CALL_S)
        side = self._side(partner)
        side.plan(1, graph=False)
        return side

    def _timed_alone(self, rivals: dict[str, Side]) -> list[float]:
        found = []
        for name, side in rivals.items():
            with self._judged_by_itself(name):
                found.append(self._series(side, _PROBES))
        return found

    def _compared(self) -> dict[str, Job]:
        """Time every rival a little, by itself and in a CUDA graph."""
        found: dict[str, Job] = {}
        for name, partner in tuple(self._rivals.items()):
            with self._judged_by_itself(name):
                side = self._side(partner)
                side.plan(1, graph=False)
                calls = self._calls(self._series(side, _PROBES))
                side.plan(calls, graph=False)
                eager = self._series(side, _TRIALS)
                graph = self._in_graph(side, calls) if self._graph else None
                found[name] = {"eager_ns": eager, "graph_ns": graph}
        return found

    @contextmanager
    def _judged_by_itself(self, name: str) -> Iterator[None]:
        """Let a rival that fails go, with its reason; the others stay."""
        try:
            yield
        except (Refused, RunnerLost) as problem:
            self._rejected[name] = str(problem)[:300]
            self._dismiss(name)
            if not self._rivals:
                first, why = next(iter(self._rejected.items()))
                raise RuntimeError(f"no baseline runs; {first}: {why}") from problem

    def _dismiss(self, *names: str) -> None:
        """Let rivals give back what they hold."""
        for name in names:
            self._rivals.pop(name).close()

    def _in_graph(self, side: Side, calls: int) -> float | None:
        side.plan(calls, graph=True)
        return self._series(side, _TRIALS) if side.graph else None

    def _pairs(self, candidate: Side, rival: Side) -> Job:
        sides = (candidate, rival)
        for side in sides:
            for _ in range(2):
                side.window()
        warm = [side.warm_ns() for side in sides]
        times: tuple[list[Window], list[Window]] = ([], [])
        alone: list[Window] = []
        review = Review(candidate, self._job)
        start = time.monotonic()
        end = start + self._job["budget_s"]
        for at in range(self._job["max_pairs"]):
            if time.monotonic() - review.took_s > end and at >= self._job["min_pairs"]:
                break
            for which in ((0, 1), (1, 0))[at % 2]:
                self._say(sides[which].name)
                look = review.slots(at, time.monotonic() - start) if which == 0 else 0
                window, made = sides[which].window(look)
                times[which].append(window)
                wrong = review.of(made) if which == 0 else None
                if wrong:
                    return {"wrong": wrong}
            if at % EVERY == 0:
                self._say(CANDIDATE)
                window, made = candidate.window(look=1, alone=True)
                alone.append(window)
                wrong = review.of(made)
                if wrong:
                    return {"wrong": wrong}
        return {
            "alone": alone,
            "candidate": times[0],
            "rival_times": times[1],
            "warm_ns": warm,
            "busy": candidate.busy() if self._job["target"] == "cpu" else None,
            "checked": review.judged,
            "threads_started": max(0, self._grown(candidate)),
        }

    def _grown(self, candidate: Side) -> int:
        with suppress(OSError, ValueError):
            return self._candidate.thread_count() - candidate.threads
        return 0


def _opponent(seen: dict[str, Job], *, graph: bool) -> tuple[str, bool]:
    """Return the fastest rival in the way that the candidate can be timed, and whether in graphs.

    A rival that no graph can hold is met by calls one by one, if it is the fastest even so.
    """
    if graph:
        best = min(seen, key=lambda name: seen[name]["graph_ns"] or seen[name]["eager_ns"])
        if seen[best]["graph_ns"] is not None:
            return best, True
    return min(seen, key=lambda name: float(seen[name]["eager_ns"])), False
