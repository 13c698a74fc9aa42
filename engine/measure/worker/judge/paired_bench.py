"""Times a candidate against the fastest of its rivals, in alternating batches of calls.

A batch is one call on each of several slots. Before each batch the judge draws new inputs and
poisons all outputs; at its end the judge stops the runner and compares outputs that it samples
then, so postponed work cannot be caught up. Returns raw times; the engine decides the verdict.
"""

from __future__ import annotations

import random
import secrets
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from kernelkb.measure.worker.judge.buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs import KernelCase
from kernelkb.measure.worker.judge.pair_timing import IncorrectCallError, time_pairs
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.judge.runner_timer import CALL_TIMEOUT_S, RunnerTimer
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError
from kernelkb.measure.worker.shared.messages.judge_jobs import (
    BenchJob,
    BenchJobResult,
    BenchTimes,
    RivalTimes,
)

_T = TypeVar("_T")

CANDIDATE = "candidate"
_PROBE_BATCHES = 3
"""Batches to estimate the time of a call, before the batch size is known."""
_TRIAL_BATCHES = 5
"""Batches to rank rivals, and to choose the batch size."""
_MAX_GRAPH_BYTES = 2**31
"""No graphs for cases above 2 GiB: a graph keeps every temporary of every call, and calls that long
hide their launches anyway."""
_MAX_GRAPH_SPEEDUP = 8.0
"""A launch takes some 15 us one by one and 2 us in a graph (H100)."""
_GUARD_BYTES = 4096
"""Guard regions of one slot, at most, per array."""
_MAX_REASON_CHARS = 300


def run_paired_bench(
    job: BenchJob, folder: Path, runners: dict[str, RunnerProcess]
) -> BenchJobResult:
    """Time the candidate against its fastest rival.

    The name of the runner that is running is in the file ``progress`` of the folder.

    Raises:
        UnsupportedHost: No runner starts here, or the memory cannot be allocated or shared.
        RuntimeError: No rival runs.
    """
    paired_bench = PairedBench(job, runners, folder / "progress")
    try:
        return {"times": paired_bench.run()}
    except IncorrectCallError as error:
        return {"incorrect_reason": str(error)}
    except (RunnerDied, RunnerError) as error:
        if error.runner_name != CANDIDATE:
            return {"baseline_error": f"{error.runner_name}: {error}"}
        if isinstance(error, RunnerDied):
            return {"runner_died": error.to_message()}
        return {"runner_died": error.to_message("kernel-error")}


class PairedBench:
    """Candidate against the fastest of its rivals, on one workload."""

    def __init__(
        self, job: BenchJob, runners: dict[str, RunnerProcess], progress_file: Path
    ) -> None:
        self._job, self._progress_file = job, progress_file
        self._candidate = runners[CANDIDATE]
        self._rivals = {name: runner for name, runner in runners.items() if name != CANDIDATE}
        self._case = KernelCase(job["target"], job["reference"], job["cases"][0])
        self._rng = random.Random(secrets.randbits(64))
        self._buffers = self._make_buffers(2)
        self._idle_read_ns = self._buffers.idle_read_ns()  # before candidate code is loaded
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

    def run(self) -> BenchTimes:
        """Choose batch size and rival, then time pairs of batches until the budget is used."""
        candidate, rivals = self._load_all()
        first_ns = self._median_call_ns(candidate, _PROBE_BATCHES)
        shortest_ns = min([first_ns, *self._time_rivals(rivals)])
        self._buffers.close()
        if self._may_use_graph:
            shortest_ns /= _MAX_GRAPH_SPEEDUP
        self._buffers = self._make_buffers(self._calls_per_batch(shortest_ns) + 1)
        candidate = self._make_timer(self._candidate)
        candidate.plan_batches(self._calls_per_batch(first_ns), graph=False)
        eager_ns = self._median_call_ns(candidate, _TRIAL_BATCHES)
        calls = self._calls_per_batch(eager_ns)
        graph_ns = self._graph_call_ns(candidate, calls) if self._may_use_graph else None
        no_graph_reason = candidate.no_graph_reason
        rival_times = self._compare_rivals()
        best, uses_graph = _fastest_rival(rival_times, graph=graph_ns is not None)
        self._close_rivals(*(name for name in self._rivals if name != best))
        rival = self._make_timer(self._rivals[best])
        own_times: RivalTimes = {"eager_ns": eager_ns, "graph_ns": graph_ns}
        uses_graph = self._plan_pair(candidate, own_times, rival, rival_times[best], uses_graph)
        pair_times = time_pairs(self._job, candidate, rival, self._write_progress)
        self._buffers.close()
        return {
            **pair_times,
            "rival_name": best,
            "rivals": rival_times,
            "rejection_reasons": self._rejection_reasons,
            "uses_graph": uses_graph,
            "no_graph_reason": None if uses_graph else no_graph_reason,
            "eager_ns": eager_ns,
            "layers": self._candidate.sandbox_layers,
            "copy_ns": self._max_copy_ns(),
            "idle_read_ns": self._idle_read_ns,
        }

    def _plan_pair(
        self,
        candidate: RunnerTimer,
        candidate_ns: RivalTimes,
        rival: RunnerTimer,
        rival_ns: RivalTimes,
        uses_graph: bool,
    ) -> bool:
        """Plan the batches of both in the same way; return whether they are CUDA graphs."""
        if uses_graph:
            for timer, times in ((rival, rival_ns), (candidate, candidate_ns)):
                calls = self._calls_per_batch(times["graph_ns"] or times["eager_ns"])
                timer.plan_batches(calls, graph=uses_graph)
                uses_graph = uses_graph and timer.uses_graph
        if not uses_graph:
            for timer, times in ((rival, rival_ns), (candidate, candidate_ns)):
                timer.plan_batches(self._calls_per_batch(times["eager_ns"]), graph=False)
        return uses_graph

    def _max_copy_ns(self) -> float | None:
        """Return the time of copies of one call's outputs; None where nothing is copied."""
        copies = self._job["returns"] and self._job["target"] == "cuda"
        return max(self._copy_ns_by_rival.values()) if copies else None

    def _calls_per_batch(self, call_ns: float) -> int:
        """Return how many calls make a batch long enough for the judge's clock.

        Limited by the number of slots and by the memory for them.
        """
        wanted = int(self._job["batch_ns"] / max(1.0, call_ns)) + 1
        slot_bytes = self._job["working_set_bytes"] + _GUARD_BYTES
        affordable = self._job["arena_bytes"] // slot_bytes - 1
        return int(max(1, min(wanted, self._job["max_slots"], affordable)))

    def _make_timer(self, runner: RunnerProcess) -> RunnerTimer:
        return RunnerTimer(runner, self._buffers, self._rng)

    def _median_call_ns(self, timer: RunnerTimer, count: int) -> float:
        """Return the median nanoseconds of a call over some batches, by the runner's clock."""
        times = []
        self._write_progress(timer.name)
        for _ in range(count):
            batch, _ = timer.time_batch()
            times.append(batch.runner_ns / batch.calls)
            if timer.name != CANDIDATE:
                self._copy_ns_by_rival[timer.name] = batch.copy_ns / batch.calls
        return statistics.median(times)

    def _load_all(self) -> tuple[RunnerTimer, dict[str, RunnerTimer]]:
        """Load the candidate while all rivals are stopped, then the rivals in parallel."""
        with ThreadPoolExecutor() as pool:
            ready = pool.submit(self._candidate.wait_ready)
            self._run_on_rivals(pool, RunnerProcess.wait_ready)
            ready.result()
            self._write_progress(CANDIDATE)
            candidate = self._load_runner(self._candidate)
            self._write_progress("its baselines")
            return candidate, self._run_on_rivals(pool, self._load_runner)

    def _write_progress(self, runner_name: str) -> None:
        self._progress_file.write_text(runner_name, encoding="utf-8")

    def _run_on_rivals(
        self, pool: Executor, action: Callable[[RunnerProcess], _T]
    ) -> dict[str, _T]:
        """Run an action on all rivals in parallel; return the results of those it works for."""
        futures = {name: pool.submit(action, rival) for name, rival in self._rivals.items()}
        results = {}
        for name, future in futures.items():
            with self._drop_on_failure(name):
                results[name] = future.result()
        return results

    def _load_runner(self, runner: RunnerProcess) -> RunnerTimer:
        runner.ask({"command": "load"}, CALL_TIMEOUT_S)
        timer = self._make_timer(runner)
        timer.plan_batches(1, graph=False)
        return timer

    def _time_rivals(self, rivals: dict[str, RunnerTimer]) -> list[float]:
        times = []
        for name, timer in rivals.items():
            with self._drop_on_failure(name):
                times.append(self._median_call_ns(timer, _PROBE_BATCHES))
        return times

    def _compare_rivals(self) -> dict[str, RivalTimes]:
        """Time every rival over a few batches, launched one by one and in a CUDA graph."""
        times: dict[str, RivalTimes] = {}
        for name, runner in tuple(self._rivals.items()):
            with self._drop_on_failure(name):
                timer = self._make_timer(runner)
                timer.plan_batches(1, graph=False)
                calls = self._calls_per_batch(self._median_call_ns(timer, _PROBE_BATCHES))
                timer.plan_batches(calls, graph=False)
                eager_ns = self._median_call_ns(timer, _TRIAL_BATCHES)
                graph_ns = self._graph_call_ns(timer, calls) if self._may_use_graph else None
                times[name] = {"eager_ns": eager_ns, "graph_ns": graph_ns}
        return times

    @contextmanager
    def _drop_on_failure(self, rival_name: str) -> Iterator[None]:
        """Drop a rival that fails, and keep the reason.

        Raises:
            RuntimeError: It was the last one.
        """
        try:
            yield
        except (RunnerError, RunnerDied) as error:
            self._rejection_reasons[rival_name] = str(error)[:_MAX_REASON_CHARS]
            self._close_rivals(rival_name)
            if not self._rivals:
                first, reason = next(iter(self._rejection_reasons.items()))
                raise RuntimeError(f"no baseline runs; {first}: {reason}") from error

    def _close_rivals(self, *names: str) -> None:
        for name in names:
            self._rivals.pop(name).close()

    def _graph_call_ns(self, timer: RunnerTimer, calls: int) -> float | None:
        timer.plan_batches(calls, graph=True)
        return self._median_call_ns(timer, _TRIAL_BATCHES) if timer.uses_graph else None


def _fastest_rival(rival_times: dict[str, RivalTimes], *, graph: bool) -> tuple[str, bool]:
    """Return the fastest rival, and whether both are timed in CUDA graphs.

    If the candidate can be captured and the fastest rival cannot, both are launched one by one.
    """
    if graph:
        best = min(rival_times, key=lambda name: _best_ns(rival_times[name]))
        if rival_times[best]["graph_ns"] is not None:
            return best, True
    return min(rival_times, key=lambda name: rival_times[name]["eager_ns"]), False


def _best_ns(times: RivalTimes) -> float:
    return times["graph_ns"] or times["eager_ns"]
