"""One side of a match: a runner on the slots of a stage, timed window by window."""

from __future__ import annotations

import os
import random
import statistics
import time
from typing import Any, NamedTuple

from kernelkb.measure.worker.judge.buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs import Tensors
from kernelkb.measure.worker.judge.procfs import thread_runqueue_wait_ns
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import make_printable

CALL_TIMEOUT_S = 60.0
_TIMEOUT_FACTOR = 50
_MIN_TIMEOUT_S = 10.0
_GRAPH_COUNT = 2
_SINGLE_CALL_GRAPH, _WARM_GRAPH = _GRAPH_COUNT, _GRAPH_COUNT + 1
_WARM_BATCHES = 5
_BUSY_SAMPLE_S = 0.3
_SPIN_DOWN_S = 0.1


class TimedBatch(NamedTuple):
    """One window: nanoseconds of all its calls by the judge's clock and by the runner's."""

    judge_ns: float
    runner_ns: float
    calls: int
    start: float
    """On the system's monotonic clock, seconds."""
    end: float
    copy_ns: float
    """How long it took to put what was returned where the judge looks, which is not its work."""
    runqueue_wait_ns: float
    """How long its threads and the judge's, together, stood in line for a core."""
    idle_read_ns: float
    """How long the judge's own reading took just before, while all processes stood still."""


class RunnerTimer:
    """A runner on the slots of a stage.

    Attributes:
        name: The runner's.
        graph: Whether its windows are CUDA graphs.
        why: Why they are not, where they were to be.
        threads: How many threads its process had once it was warm.
    """

    def __init__(self, runner: RunnerProcess, buffers: CaseBuffers, rng: random.Random) -> None:
        """Open the stage's memory to the runner, and let it call its code once."""
        self.name = runner.name
        self._runner, self._buffers, self._rng = runner, buffers, rng
        self._graph_slots: dict[int, list[int]] = {}
        self._slots = range(buffers.slot_count)
        self._batch_calls = 1
        self._spare_slot = 0
        self.uses_graph = False
        self.no_graph_reason: str | None = None
        self.warm_thread_count = 0
        self._timeout_s = CALL_TIMEOUT_S
        buffers.attach_runner(runner, timeout_s=CALL_TIMEOUT_S)
        runner.ask("call", CALL_TIMEOUT_S, slot=0)

    def plan_batches(self, calls: int, *, graph: bool) -> None:
        """Plan windows of some calls, each on slots and in an order of its own.

        Args:
            calls: At most as many as there are slots, less one that stays as it is.
            graph: Make each window one CUDA graph, where that is possible. Calls one by one are
                on other slots each time; graphs are few, and made beforehand.
        """
        self._batch_calls = max(1, min(calls, self._buffers.slot_count - 1))
        self._timeout_s = CALL_TIMEOUT_S
        self.uses_graph, self.no_graph_reason = False, None
        self.uses_graph = graph and self._capture_graphs()
        self.warm_thread_count = self._runner.thread_count()
        self._runner.pause()
        if self.uses_graph:
            self._verify_graph_replay(calls)

    def _capture_graphs(self) -> bool:
        """Make the graphs, in an order that tells nobody which is which."""
        sizes = {_SINGLE_CALL_GRAPH: 1, **dict.fromkeys(range(_GRAPH_COUNT), self._batch_calls)}
        self._graph_slots = {at: self._rng.sample(self._slots, size) for at, size in sizes.items()}
        self._graph_slots[_WARM_GRAPH] = [0] * self._batch_calls
        for at in self._rng.sample(list(self._graph_slots), len(self._graph_slots)):
            answer = self._runner.ask("plan", CALL_TIMEOUT_S, id=at, slots=self._graph_slots[at])
            if answer.get("why"):
                self.no_graph_reason = make_printable(answer["why"])[:300]
                return False
        return True

    def _verify_graph_replay(self, calls: int) -> None:
        """Go back to calls one by one where a graph of them does not do their work.

        What is launched on another stream than the one that is given is in no graph.
        """
        wrong = self.find_fault(self.time_batch(sample_count=1)[1])
        if wrong:
            self.plan_batches(calls, graph=False)
            self.no_graph_reason = f"replayed, {wrong}; launch on the stream that is given"

    def warm_call_ns(self) -> float:
        """Return the time of a call whose data the call before has left in the cache.

        Its contents repeat, so it could be cheated, and by the runner's own clock: it explains,
        and decides nothing.
        """
        times = []
        for _ in range(_WARM_BATCHES):
            answer = self._runner.ask("go", CALL_TIMEOUT_S, **self._warm_request())
            times.append(self._runner.parse_time_ns(answer, "inner_ns") / self._batch_calls)
        self._runner.pause()
        return statistics.median(times)

    def busy_cores(self) -> float:
        """Return how many cores it keeps busy, over windows of 0.3 s and more together."""
        time.sleep(_SPIN_DOWN_S)  # threads that woke the cache spin for a while before they sleep
        wall, before = 0.0, self._runner.cpu_ticks()
        while wall < _BUSY_SAMPLE_S:
            started = time.perf_counter()
            self._runner.ask("go", CALL_TIMEOUT_S, **self._warm_request())
            wall += time.perf_counter() - started
        self._runner.pause()
        return (self._runner.cpu_ticks() - before) / os.sysconf("SC_CLK_TCK") / wall

    def _warm_request(self) -> dict[str, Any]:
        return {"plan": _WARM_GRAPH} if self.uses_graph else {"slots": [0] * self._batch_calls}

    def _draw_batch(self, *, single_call: bool) -> tuple[list[int], dict[str, Any]]:
        """Return the slots of a window, and how the runner is told them."""
        if self.uses_graph:
            at = _SINGLE_CALL_GRAPH if single_call else self._rng.randrange(_GRAPH_COUNT)
            return self._graph_slots[at], {"plan": at}
        plan = self._rng.sample(self._slots, 1 if single_call else self._batch_calls)
        return plan, {"slots": plan}

    def time_batch(
        self, sample_count: int = 0, *, single_call: bool = False
    ) -> tuple[TimedBatch, dict[int, Tensors]]:
        """Renew contents, then time some calls.

        Also returns what ``sample_count`` of the slots hold then.

        The runner is stopped whenever it is not to work: while its inputs are made, while others
        are timed, and from its answer on. So the clock ends when nothing of it runs any more, and
        what the judge finds then is what was done in time.

        Args:
            sample_count: How many slots to look at.
            single_call: Make one call only, which nobody knows before it comes.
        """
        plan, told = self._draw_batch(single_call=single_call)
        called = set(plan)
        self._spare_slot = self._rng.choice([slot for slot in self._slots if slot not in called])
        chosen = self._sample_slots(plan, sample_count)
        quiet = self._buffers.refresh([*plan, self._spare_slot])
        self._runner.verify_stopped()
        waited = self._runner.runqueue_wait_ns() + thread_runqueue_wait_ns()
        start = time.monotonic()
        clock = time.perf_counter_ns()
        answer = self._runner.ask("go", self._timeout_s, **told)
        self._runner.send_stop()
        outer, made = self._buffers.sync_and_copy(chosen, clock)
        self._runner.pause()
        self._timeout_s = max(
            _MIN_TIMEOUT_S, _TIMEOUT_FACTOR * outer / 1e9
        )  # it has shown what it takes
        end = time.monotonic()
        waited = self._runner.runqueue_wait_ns() + thread_runqueue_wait_ns() - waited
        inner = self._runner.parse_time_ns(answer, "inner_ns")
        copied = self._runner.parse_time_ns(answer, "copy_ns")
        window = TimedBatch(outer, inner, len(plan), start, end, copied, waited, quiet)
        return window, made or {
            slot: self._buffers.copy_outputs(slot, self._runner) for slot in chosen
        }

    def _sample_slots(self, plan: list[int], sample_count: int) -> list[int]:
        chosen = self._rng.sample(plan, min(sample_count, len(plan)))
        if chosen and self._rng.random() < 0.5 and plan[-1] not in chosen:
            chosen[0] = plan[-1]  # the last call is the one to put off
        return chosen

    def find_fault(self, slot_outputs: dict[int, Tensors]) -> str | None:
        """Say what is wrong with the last window, of which ``window`` gave some slots' outputs."""
        if not self._buffers.is_untouched(self._spare_slot):
            return "it wrote outputs that it was not called for"
        faults = (self._find_slot_fault(slot, outputs) for slot, outputs in slot_outputs.items())
        return next((fault for fault in faults if fault), None)

    def _find_slot_fault(self, slot: int, outputs: Tensors) -> str | None:
        tampered = self._buffers.find_tampering(slot)
        if tampered:
            return tampered
        found = self._buffers.compute_reference(slot).compare(outputs)
        if found["correct"]:
            return None
        if found["nan_count"]:
            return f"{found['nan_count']} elements were not written when it said it had ended"
        return f"a timed call was wrong in {1 - found['matched_ratio']:.1%} of its elements"
