"""Times one runner process, batch by batch, on rotating shared-memory buffers."""

from __future__ import annotations

import os
import random
import statistics
import time
from contextlib import suppress

from kernelkb.measure.worker.judge.buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs import Tensors
from kernelkb.measure.worker.judge.procfs import thread_runqueue_wait_ns
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import make_printable
from kernelkb.measure.worker.shared.messages.judge_jobs import Batch
from kernelkb.measure.worker.shared.messages.runner_commands import RunBatchCommand

CALL_TIMEOUT_S = 60.0
"""For one call, a capture, or the first batch."""
_TIMEOUT_FACTOR = 50
"""Times the last batch: the limit of the next, but at least ``_MIN_TIMEOUT_S``."""
_MIN_TIMEOUT_S = 10.0
_GRAPH_COUNT = 2
"""CUDA graphs of a full batch, so that a candidate cannot know which slots come next."""
_SINGLE_CALL_GRAPH, _WARM_GRAPH = _GRAPH_COUNT, _GRAPH_COUNT + 1
_WARM_BATCHES = 5
_BUSY_SAMPLE_S = 0.3
_SPIN_DOWN_S = 0.1
"""OpenMP threads spin for a while after a region before they sleep."""
_LAST_CALL_SHARE = 0.5
"""How often the last call of a batch is among the sampled ones: it is the easiest to postpone."""
_MAX_REASON_CHARS = 300


class RunnerTimer:
    """A runner whose code is bound to all slots of a case.

    Attributes:
        name: The runner's.
        uses_graph: Whether its batches are CUDA graphs.
        no_graph_reason: Why they are not, where that was tried.
        warm_thread_count: Threads of its process after the first calls.
    """

    def __init__(self, runner: RunnerProcess, buffers: CaseBuffers, rng: random.Random) -> None:
        """Bind the runner's code to the buffers and call it once. Raises like ``ask``."""
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
        runner.ask({"command": "call", "slot": 0}, CALL_TIMEOUT_S)

    def plan_batches(self, calls: int, *, graph: bool) -> None:
        """Set the number of calls per batch, and whether batches are CUDA graphs.

        Args:
            calls: Limited to the number of slots less one, which stays untouched in each batch.
            graph: Capture graphs where that is possible. Batches of single launches use other slots
                each time; graphs are few and captured beforehand.
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
        """Capture all graphs in random order, so that the candidate cannot tell which is which."""
        sizes = {_SINGLE_CALL_GRAPH: 1, **dict.fromkeys(range(_GRAPH_COUNT), self._batch_calls)}
        self._graph_slots = {
            graph_id: self._rng.sample(self._slots, size) for graph_id, size in sizes.items()
        }
        self._graph_slots[_WARM_GRAPH] = [0] * self._batch_calls
        for graph_id in self._rng.sample(list(self._graph_slots), len(self._graph_slots)):
            answer = self._runner.ask(
                {"command": "capture", "graph_id": graph_id, "slots": self._graph_slots[graph_id]},
                CALL_TIMEOUT_S,
            )
            if answer.get("reason"):
                self.no_graph_reason = make_printable(answer["reason"])[:_MAX_REASON_CHARS]
                return False
        return True

    def _verify_graph_replay(self, calls: int) -> None:
        """Return to single launches if a replayed graph does not compute the outputs.

        Work that is launched on another stream than the given one is in no graph.
        """
        fault = self.find_fault(self.time_batch(sample_count=1)[1])
        if fault:
            self.plan_batches(calls, graph=False)
            self.no_graph_reason = f"replayed, {fault}; launch on the stream that is given"

    def warm_call_ns(self) -> float:
        """Return the median time of a call whose data is in the cache, by the runner's clock.

        It repeats one slot's contents, so it could be cheated; no verdict depends on it.
        """
        times = []
        for _ in range(_WARM_BATCHES):
            answer = self._runner.ask(self._warm_command(), CALL_TIMEOUT_S)
            times.append(self._runner.parse_time_ns(answer, "runner_ns") / self._batch_calls)
        self._runner.pause()
        return statistics.median(times)

    def busy_cores(self) -> float:
        """Return the mean number of cores that it keeps busy, over batches of 0.3 s together."""
        time.sleep(_SPIN_DOWN_S)
        wall_s, ticks = 0.0, self._runner.cpu_ticks()
        while wall_s < _BUSY_SAMPLE_S:
            start = time.perf_counter()
            self._runner.ask(self._warm_command(), CALL_TIMEOUT_S)
            wall_s += time.perf_counter() - start
        self._runner.pause()
        return (self._runner.cpu_ticks() - ticks) / os.sysconf("SC_CLK_TCK") / wall_s

    def new_thread_count(self) -> int:
        """Return how many threads more than when it was warm its process has; 0 if it ended."""
        with suppress(OSError, ValueError):
            return max(0, self._runner.thread_count() - self.warm_thread_count)
        return 0

    def _warm_command(self) -> RunBatchCommand:
        if self.uses_graph:
            return {"command": "run-batch", "graph_id": _WARM_GRAPH}
        return {"command": "run-batch", "slots": [0] * self._batch_calls}

    def _draw_batch(self, *, single_call: bool) -> tuple[list[int], RunBatchCommand]:
        """Return the slots of the next batch, and the command that runs it."""
        if self.uses_graph:
            graph_id = _SINGLE_CALL_GRAPH if single_call else self._rng.randrange(_GRAPH_COUNT)
            return self._graph_slots[graph_id], {"command": "run-batch", "graph_id": graph_id}
        slots = self._rng.sample(self._slots, 1 if single_call else self._batch_calls)
        return slots, {"command": "run-batch", "slots": slots}

    def time_batch(
        self, sample_count: int = 0, *, single_call: bool = False
    ) -> tuple[Batch, dict[int, Tensors]]:
        """Refresh the buffers, then time one batch; return it and copies of some slots' outputs.

        The runner is stopped while its inputs are drawn, while other runners are timed, and from
        its answer on. So the clock ends when none of its threads runs any more, and the outputs
        that the judge reads then were computed within the measured time.

        Args:
            sample_count: Number of slots whose outputs to return.
            single_call: Time one call only, which the candidate cannot foresee.
        """
        slots, command = self._draw_batch(single_call=single_call)
        used = set(slots)
        self._spare_slot = self._rng.choice([slot for slot in self._slots if slot not in used])
        sampled = self._sample_slots(slots, sample_count)
        idle_read_ns = self._buffers.refresh([*slots, self._spare_slot])
        self._runner.verify_stopped()
        waited_ns = self._total_runqueue_wait_ns()
        start_s, start_ns = time.monotonic(), time.perf_counter_ns()
        answer = self._runner.ask(command, self._timeout_s)
        self._runner.send_stop()
        judge_ns, copies = self._buffers.sync_and_copy(sampled, start_ns)
        self._runner.pause()
        end_s = time.monotonic()
        self._timeout_s = max(_MIN_TIMEOUT_S, _TIMEOUT_FACTOR * judge_ns / 1e9)
        batch = Batch(
            judge_ns=judge_ns,
            runner_ns=self._runner.parse_time_ns(answer, "runner_ns"),
            calls=len(slots),
            start_s=start_s,
            end_s=end_s,
            copy_ns=self._runner.parse_time_ns(answer, "copy_ns"),
            runqueue_wait_ns=self._total_runqueue_wait_ns() - waited_ns,
            idle_read_ns=idle_read_ns,
        )
        return batch, copies or {
            slot: self._buffers.copy_outputs(slot, self._runner) for slot in sampled
        }

    def _total_runqueue_wait_ns(self) -> int:
        return self._runner.runqueue_wait_ns() + thread_runqueue_wait_ns()

    def _sample_slots(self, slots: list[int], sample_count: int) -> list[int]:
        sampled = self._rng.sample(slots, min(sample_count, len(slots)))
        if sampled and self._rng.random() < _LAST_CALL_SHARE and slots[-1] not in sampled:
            sampled[0] = slots[-1]
        return sampled

    def find_fault(self, slot_outputs: dict[int, Tensors]) -> str | None:
        """Report what is wrong with the last batch.

        Args:
            slot_outputs: The outputs that ``time_batch`` returned, by slot.
        """
        if not self._buffers.is_untouched(self._spare_slot):
            return "it wrote outputs that it was not called for"
        faults = (self._find_slot_fault(slot, outputs) for slot, outputs in slot_outputs.items())
        return next((fault for fault in faults if fault), None)

    def _find_slot_fault(self, slot: int, outputs: Tensors) -> str | None:
        tampering = self._buffers.find_tampering(slot)
        if tampering:
            return tampering
        comparison = self._buffers.compute_reference(slot).compare(outputs)
        if comparison["correct"]:
            return None
        if comparison["nan_count"]:
            return f"{comparison['nan_count']} elements were not written when the call had returned"
        return f"a timed call was wrong in {1 - comparison['matched_ratio']:.1%} of its elements"
