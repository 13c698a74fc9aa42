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

from kernelkb.measure.worker.judge.buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs import KernelCase
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.judge.runner_timer import CALL_TIMEOUT_S, RunnerTimer, TimedBatch
from kernelkb.measure.worker.judge.sampling import CHECK_EVERY_PAIRS, OutputSampler
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError

Job = dict[str, Any]
_T = TypeVar("_T")

CANDIDATE = "candidate"
_PROBE_BATCHES = 3
_TRIAL_BATCHES = 5
_MAX_GRAPH_BYTES = 2**31
_MAX_GRAPH_SPEEDUP = (
    8.0  # at most so much shorter is a call in a graph: a launch of some 15 us is 2 us
)


def run_paired_bench(job: Job, folder: Path, runners: dict[str, RunnerProcess]) -> Job:
    """Return raw times of windows, in pairs of candidate and rival.

    ``{"candidate": [window, …], "rival": [window, …], "rivals": {…}, …}`` with windows as in
    ``Window``; or ``{"lost": {"status", "detail"}}`` when the candidate did not last,
    ``{"baseline": text}`` when its rival did not, and ``{"wrong": text}`` when a timed call was
    wrong. Whose turn it is stands in ``progress``, for whoever loses patience.
    """
    match = PairedBench(job, runners, folder / "progress")
    try:
        return match.run()
    except (RunnerDied, RunnerError) as lost:
        if lost.runner_name != CANDIDATE:
            return {"baseline": f"{lost.runner_name}: {lost}"}
        status = lost.status if isinstance(lost, RunnerDied) else "kernel-error"
        return {"lost": {"status": status, "detail": str(lost)}}


class PairedBench:
    """Candidate against the best of its rivals, on one workload."""

    def __init__(self, job: Job, runners: dict[str, RunnerProcess], progress_file: Path) -> None:
        self._job, self._progress_file = job, progress_file
        self._candidate = runners[CANDIDATE]
        self._rivals = {name: one for name, one in runners.items() if name != CANDIDATE}
        self._case = KernelCase(job, job["cases"][0])
        self._rng = random.Random(secrets.randbits(64))
        self._buffers = self._make_buffers(2)
        self._idle_read_ns = (
            self._buffers.idle_read_ns()
        )  # before there is any code of the candidate's
        # A graph keeps every temporary of every call; calls that long are no launches anyway.
        self._may_use_graph = (
            job["target"] == "cuda" and job["working_set_bytes"] < _MAX_GRAPH_BYTES
        )
        self._rejection_reasons: dict[str, str] = {}
        self._copy_ns_by_rival: dict[str, float] = {}

    def _make_buffers(self, slot_count: int) -> CaseBuffers:
        return CaseBuffers(
            self._case,
            self._job["tolerances"],
            slot_count,
            self._rng,
            flush_bytes=max(4, 2 * self._job["cache_bytes"]),
        )

    def run(self) -> Job:
        """Choose slots and rival, then take windows in pairs until the time is up."""
        candidate, rivals = self._load_all()
        first = self._median_call_ns(candidate, _PROBE_BATCHES)
        times = [first, *self._time_rivals(rivals)]
        self._buffers.close()
        shortest = min(times) / (_MAX_GRAPH_SPEEDUP if self._may_use_graph else 1.0)
        self._buffers = self._make_buffers(self._calls_per_batch(shortest) + 1)
        candidate = self._make_timer(self._candidate)
        candidate.plan_batches(self._calls_per_batch(first), graph=False)
        eager = self._median_call_ns(candidate, _TRIAL_BATCHES)
        count = self._calls_per_batch(eager)
        fast = self._graph_call_ns(candidate, count) if self._may_use_graph else None
        why = candidate.no_graph_reason
        seen = self._compare_rivals()
        best, graph = _fastest_rival(seen, graph=fast is not None)
        self._close_rivals(*(name for name in self._rivals if name != best))
        rival = self._make_timer(self._rivals[best])
        if graph:
            rival.plan_batches(self._calls_per_batch(seen[best]["graph_ns"]), graph=True)
            candidate.plan_batches(self._calls_per_batch(fast or eager), graph=rival.uses_graph)
        graph = graph and rival.uses_graph and candidate.uses_graph
        if not graph:
            rival.plan_batches(self._calls_per_batch(seen[best]["eager_ns"]), graph=False)
            candidate.plan_batches(self._calls_per_batch(eager), graph=False)
        result = self._time_pairs(candidate, rival)
        self._buffers.close()
        return {
            **result,
            "rival": best,
            "rivals": seen,
            "rejected": self._rejection_reasons,
            "graph": graph,
            "graph_why": None if graph else why,
            "eager_ns": eager,
            "layers": self._candidate.sandbox_layers,
            "copy_ns": self._max_copy_ns(),
            "quiet_ns": self._idle_read_ns,
        }

    def _max_copy_ns(self) -> float | None:
        """Return what copies of a call's outputs take; None where nobody copies any."""
        copies = self._job["returns"] and self._job["target"] == "cuda"
        return max(self._copy_ns_by_rival.values()) if copies else None

    def _calls_per_batch(self, call_ns: float) -> int:
        """Return how many calls make a window long enough to be timed from outside.

        Asked again after the first windows: a candidate that is slow at first must not get windows
        that are too short later.
        """
        wanted = int(self._job["window_ns"] / max(1.0, call_ns)) + 1
        each = self._job["working_set_bytes"] + 4096
        room = self._job["arena_bytes"] // each - 1
        return int(max(1, min(wanted, self._job["most_slots"], room)))

    def _make_timer(self, runner: RunnerProcess) -> RunnerTimer:
        return RunnerTimer(runner, self._buffers, self._rng)

    def _median_call_ns(self, timer: RunnerTimer, count: int) -> float:
        """Return the median nanoseconds of a call, eagerly, over some windows."""
        times = []
        self._write_progress(timer.name)
        for _ in range(count):
            window, _ = timer.time_batch()
            times.append(window.runner_ns / window.calls)
            if timer.name != CANDIDATE:
                self._copy_ns_by_rival[timer.name] = window.copy_ns / window.calls
        return statistics.median(times)

    def _load_all(self) -> tuple[RunnerTimer, dict[str, RunnerTimer]]:
        """Load the candidate while all others stand still, then the rivals side by side."""
        with ThreadPoolExecutor() as pool:
            entered = pool.submit(self._candidate.wait_ready)
            self._run_on_rivals(pool, RunnerProcess.wait_ready)
            entered.result()
            self._write_progress(CANDIDATE)
            candidate = self._load_runner(self._candidate)
            self._write_progress("its baselines")
            return candidate, self._run_on_rivals(pool, self._load_runner)

    def _write_progress(self, runner_name: str) -> None:
        self._progress_file.write_text(runner_name, encoding="utf-8")

    def _run_on_rivals(
        self, pool: Executor, action: Callable[[RunnerProcess], _T]
    ) -> dict[str, _T]:
        """Do something to all rivals at once; return what came of it where it did not fail."""
        futures = {name: pool.submit(action, one) for name, one in self._rivals.items()}
        found = {}
        for name, future in futures.items():
            with self._drop_on_failure(name):
                found[name] = future.result()
        return found

    def _load_runner(self, runner: RunnerProcess) -> RunnerTimer:
        runner.ask("load", CALL_TIMEOUT_S)
        side = self._make_timer(runner)
        side.plan_batches(1, graph=False)
        return side

    def _time_rivals(self, rivals: dict[str, RunnerTimer]) -> list[float]:
        found = []
        for name, side in rivals.items():
            with self._drop_on_failure(name):
                found.append(self._median_call_ns(side, _PROBE_BATCHES))
        return found

    def _compare_rivals(self) -> dict[str, Job]:
        """Time every rival a little, by itself and in a CUDA graph."""
        found: dict[str, Job] = {}
        for name, partner in tuple(self._rivals.items()):
            with self._drop_on_failure(name):
                side = self._make_timer(partner)
                side.plan_batches(1, graph=False)
                calls = self._calls_per_batch(self._median_call_ns(side, _PROBE_BATCHES))
                side.plan_batches(calls, graph=False)
                eager = self._median_call_ns(side, _TRIAL_BATCHES)
                graph = self._graph_call_ns(side, calls) if self._may_use_graph else None
                found[name] = {"eager_ns": eager, "graph_ns": graph}
        return found

    @contextmanager
    def _drop_on_failure(self, rival_name: str) -> Iterator[None]:
        """Let a rival that fails go, with its reason; the others stay."""
        try:
            yield
        except (RunnerError, RunnerDied) as problem:
            self._rejection_reasons[rival_name] = str(problem)[:300]
            self._close_rivals(rival_name)
            if not self._rivals:
                first, why = next(iter(self._rejection_reasons.items()))
                raise RuntimeError(f"no baseline runs; {first}: {why}") from problem

    def _close_rivals(self, *names: str) -> None:
        """Let rivals give back what they hold."""
        for name in names:
            self._rivals.pop(name).close()

    def _graph_call_ns(self, timer: RunnerTimer, calls: int) -> float | None:
        timer.plan_batches(calls, graph=True)
        return self._median_call_ns(timer, _TRIAL_BATCHES) if timer.uses_graph else None

    def _time_pairs(self, candidate: RunnerTimer, rival: RunnerTimer) -> Job:
        sides = (candidate, rival)
        for side in sides:
            for _ in range(2):
                side.time_batch()
        warm = [side.warm_call_ns() for side in sides]
        times: tuple[list[TimedBatch], list[TimedBatch]] = ([], [])
        alone: list[TimedBatch] = []
        review = OutputSampler(candidate, self._job)
        start = time.monotonic()
        end = start + self._job["budget_s"]
        for at in range(self._job["max_pairs"]):
            if time.monotonic() - review.check_s > end and at >= self._job["min_pairs"]:
                break
            for which in ((0, 1), (1, 0))[at % 2]:
                self._write_progress(sides[which].name)
                look = review.slot_count(at, time.monotonic() - start) if which == 0 else 0
                window, made = sides[which].time_batch(look)
                times[which].append(window)
                wrong = review.check_batch(made) if which == 0 else None
                if wrong:
                    return {"wrong": wrong}
            if at % CHECK_EVERY_PAIRS == 0:
                self._write_progress(CANDIDATE)
                window, made = candidate.time_batch(sample_count=1, single_call=True)
                alone.append(window)
                wrong = review.check_batch(made)
                if wrong:
                    return {"wrong": wrong}
        return {
            "alone": alone,
            "candidate": times[0],
            "rival_times": times[1],
            "warm_ns": warm,
            "busy": candidate.busy_cores() if self._job["target"] == "cpu" else None,
            "checked": review.checked_count,
            "threads_started": max(0, self._new_thread_count(candidate)),
        }

    def _new_thread_count(self, candidate: RunnerTimer) -> int:
        with suppress(OSError, ValueError):
            return self._candidate.thread_count() - candidate.warm_thread_count
        return 0


def _fastest_rival(rival_times: dict[str, Job], *, graph: bool) -> tuple[str, bool]:
    """Return the fastest rival in the way that the candidate can be timed, and whether in graphs.

    A rival that no graph can hold is met by calls one by one, if it is the fastest even so.
    """
    if graph:
        best = min(
            rival_times,
            key=lambda name: rival_times[name]["graph_ns"] or rival_times[name]["eager_ns"],
        )
        if rival_times[best]["graph_ns"] is not None:
            return best, True
    return min(rival_times, key=lambda name: float(rival_times[name]["eager_ns"])), False
