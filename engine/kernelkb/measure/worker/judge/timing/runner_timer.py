"""Times batches of one runner's calls, and separate calls, and looks at their outputs."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kernelkb.measure.worker.judge.case_buffers import CaseBuffers, find_slot_fault
from kernelkb.measure.worker.judge.inputs.inputs import Tensors
from kernelkb.measure.worker.judge.output_marks import DrawSlots, OutputMark
from kernelkb.measure.worker.judge.procfs import (
    cpu_ticks,
    cpu_time_ns,
    runqueue_wait_ns,
    share_core,
    thread_runqueue_wait_ns,
)
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError, make_printable
from kernelkb.measure.worker.shared.messages.jobs import Batch
from kernelkb.measure.worker.shared.messages.runner_commands import (
    CaptureCommand,
    RepeatCommand,
    RunBatchCommand,
)

_SPIN_DOWN_S = 0.1
"""OpenMP threads spin for a while after a region before they sleep."""
_IDLE_SAMPLE_S = 0.05
"""How long to watch a process that runs without a command."""
_BUSY_SAMPLE_S = 0.3
_THREADS_TIMEOUT_S = 60.0
MAX_CALLS = 16
_LEAD_CALLS = 1
"""Calls before those that count: the runner has just been resumed."""
_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 60.0
"""For one call, a capture, or the first batch."""
_FIRST_CALL_TIMEOUT_S = 600.0
"""The first call may compile: the limit is that of the whole bench."""
_TIMEOUT_FACTOR = 50
"""Times the last batch: the limit of the next, but at least ``_MIN_TIMEOUT_S``."""
_MIN_TIMEOUT_S = 10.0
_GRAPH_COUNT = 2
"""CUDA graphs of a full batch, so that a candidate cannot know which slots come next."""
_SINGLE_CALL_GRAPH, _WARM_GRAPH = _GRAPH_COUNT, _GRAPH_COUNT + 1
_WARM_BATCHES = 5
_ORDER_CYCLES = 100_000_000
"""GPU clock cycles of the kernel in front of an ordered call: some 0.05 s."""
_MAX_REASON_CHARS = 300
_MIN_SUCCESSIVE_CALLS, _MAX_SUCCESSIVE_CALLS = 2, 8


def draw_none(_slots: Sequence[int]) -> list[int]:
    """Have no outputs returned; of the type ``DrawSlots``."""
    return []


class TimedBatch(NamedTuple):
    """A batch that was timed, while its outputs are in the buffers still."""

    batch: Batch
    slots: list[int]
    """In the order of the calls."""
    outputs: dict[int, Tensors]
    """Copies for the slots that were drawn."""
    marks: list[OutputMark] | None = None
    """Of all calls, where they were read when each had ended; None: they can be read still."""
    kept_outputs: Mapping[int, Tensors] = {}
    """Copies for all slots, where they were made when each call had ended."""


class RunnerThreads:
    """Threads of one runner's process."""

    def __init__(self, runner: RunnerProcess) -> None:
        self._runner = runner
        self._warm_count = 0

    def note_warm(self) -> None:
        """Take the present number for that of a process that has made its first calls."""
        self._warm_count = self._runner.thread_count()

    def count_new(self) -> int:
        """Return how many more there are than when it was warm; 0 if the process ended."""
        with suppress(OSError, ValueError):
            return max(0, self._runner.thread_count() - self._warm_count)
        return 0

    def busy_cores(self, command: RunBatchCommand) -> float:
        """Return the mean number of cores that the process keeps busy, over 0.3 s of batches.

        Args:
            command: Runs one batch. The process is stopped afterwards.
        """
        time.sleep(_SPIN_DOWN_S)
        wall_s, ticks = 0.0, cpu_ticks(self._runner.pid)
        while wall_s < _BUSY_SAMPLE_S:
            start = time.perf_counter()
            self._runner.ask(command, _THREADS_TIMEOUT_S)
            wall_s += time.perf_counter() - start
        self._runner.pause()
        return (cpu_ticks(self._runner.pid) - ticks) / os.sysconf("SC_CLK_TCK") / wall_s

    def idle_cpu_ns(self) -> float:
        """Return the CPU time that the process uses in 50 ms without a command; 0 if it ended.

        Threads of OpenMP, which spin for a while, have gone to sleep by then.
        """
        with suppress(RunnerDied, RunnerError):
            self._runner.ask({"command": "synchronize"}, _THREADS_TIMEOUT_S)
            time.sleep(_SPIN_DOWN_S)
            start_ns = cpu_time_ns(self._runner.pid)
            time.sleep(_IDLE_SAMPLE_S)
            used_ns = cpu_time_ns(self._runner.pid) - start_ns
            self._runner.pause()
            return float(max(0, used_ns))
        return 0.0


class SeparateCalls(NamedTuple):
    """Calls that were timed one by one, and what each had left when it ended."""

    judge_ns: float
    """Of a call by the judge's clock: the median of those that count."""
    runner_ns: float
    """The same by the runner's clock."""
    outputs: dict[int, Tensors]
    """Copies, by slot."""
    marks: list[OutputMark]
    """In the order of the calls."""


def time_separate_calls(
    runner: RunnerProcess, buffers: CaseBuffers, slots: Sequence[int]
) -> SeparateCalls:
    """Call on each slot; raises like ``RunnerProcess.ask``.

    Args:
        runner: Bound to the buffers.
        buffers: Of a CPU; the slots' inputs are drawn anew.
        slots: Two at least.
    """
    judge_ns: list[float] = []
    runner_ns: list[float] = []
    outputs: dict[int, Tensors] = {}
    marks: list[OutputMark] = []
    for slot in slots:
        buffers.draw(slot)
        buffers.expect_calls([slot])
        with share_core(runner.pid):
            start_ns = time.perf_counter_ns()
            answer = runner.ask(
                {"command": "run-batch", "slots": [slot]}, _TIMEOUT_S, is_timed=True
            )
            elapsed_ns = time.perf_counter_ns() - start_ns
        marks += buffers.read_marks([slot], runner)
        outputs[slot] = buffers.copy_outputs(slot, runner)
        judge_ns.append(elapsed_ns)
        runner_ns.append(runner.parse_time_ns(answer, "runner_ns"))
    runner.pause()
    typical_ns = [statistics.median(side[_LEAD_CALLS:]) for side in (judge_ns, runner_ns)]
    return SeparateCalls(typical_ns[0], typical_ns[1], outputs, marks)


class RunnerTimer:
    """A runner whose code is bound to all slots of a case.

    Attributes:
        name: The runner's.
        batch_calls: Calls per batch.
        uses_graph: Whether its batches are CUDA graphs.
        no_graph_reason: Why they are not, where that was tried.
        graph_fault: What is wrong with graphs that could be captured, and were.
        shares_outputs: Whether a call returned the memory that an earlier one of its batch had
            returned, and so overwrote its outputs. Such code is timed in batches of one call.
        threads: Of its process.
    """

    def __init__(self, runner: RunnerProcess, buffers: CaseBuffers, rng: random.Random) -> None:
        """Bind the runner's code to the buffers and call it once. Raises like ``ask``."""
        self.name = runner.name
        self._runner, self._buffers, self._rng = runner, buffers, rng
        self._graph_slots: dict[int, list[int]] = {}
        self._slots = range(buffers.slot_count)
        self.batch_calls = 1
        self._spare_slots: list[int] = []
        self.uses_graph = False
        self.no_graph_reason: str | None = None
        self.graph_fault: str | None = None
        self.shares_outputs = False
        self.threads = RunnerThreads(runner)
        self._timeout_s = CALL_TIMEOUT_S
        buffers.attach_runner(runner, timeout_s=CALL_TIMEOUT_S)
        runner.ask({"command": "call", "slot": 0, "fills_memory": False}, _FIRST_CALL_TIMEOUT_S)

    def plan_batches(self, calls: int, *, graph: bool) -> None:
        """Set the number of calls per batch, and whether batches are CUDA graphs.

        Args:
            calls: Limited to the number of slots less one, which stays untouched in each batch.
            graph: Capture graphs where that is possible. Batches of single launches use other slots
                each time; graphs are few and captured beforehand.
        """
        self.batch_calls = max(1, min(calls, self._buffers.slot_count - 1))
        self._timeout_s = CALL_TIMEOUT_S
        self.uses_graph, self.no_graph_reason = False, None
        self.uses_graph = graph and self._capture_graphs()
        self.threads.note_warm()
        self._runner.pause()
        if self.uses_graph:
            self._verify_graph_replay(calls)

    def _capture_graphs(self) -> bool:
        """Capture all graphs in random order, so that the candidate cannot tell which is which."""
        sizes = {_SINGLE_CALL_GRAPH: 1, **dict.fromkeys(range(_GRAPH_COUNT), self.batch_calls)}
        self._graph_slots = {
            graph_id: self._rng.sample(self._slots, size) for graph_id, size in sizes.items()
        }
        self._graph_slots[_WARM_GRAPH] = [0] * self.batch_calls
        for graph_id in self._rng.sample(list(self._graph_slots), len(self._graph_slots)):
            answer = self._runner.ask(
                {"command": "capture", "graph_id": graph_id, "slots": self._graph_slots[graph_id]},
                CALL_TIMEOUT_S,
            )
            self.shares_outputs |= answer.get("shares_memory") is True
            if answer.get("reason"):
                self.no_graph_reason = make_printable(answer["reason"])[:_MAX_REASON_CHARS]
                return False
        return True

    def _verify_graph_replay(self, calls: int) -> None:
        """Return to single launches if a replayed graph does not compute the outputs.

        That is a fault, but of work that ran while it was to be captured: launched on the default
        stream it is in no graph.
        """
        fault = self.find_fault(self.time_batch(lambda slots: [slots[-1]]).outputs)
        if fault:
            runs_at_capture = self._runs_at_capture()
            self.plan_batches(calls, graph=False)
            self.no_graph_reason = f"{fault}, in a CUDA graph that was replayed"
            if runs_at_capture:
                self.no_graph_reason = "its kernels are launched on another stream than the given"
            else:
                self.graph_fault = self.no_graph_reason

    def _runs_at_capture(self) -> bool:
        """Return whether a call that is captured computes its outputs at once."""
        slot = self._rng.choice(self._slots)
        self._spare_slots = []
        self._buffers.refresh([slot])
        command: CaptureCommand
        command = {"command": "capture", "graph_id": _SINGLE_CALL_GRAPH, "slots": [slot]}
        answer = self._runner.ask(command, CALL_TIMEOUT_S)
        self._runner.pause()
        return not answer.get("reason") and not self.find_fault({slot: self.copy_outputs(slot)})

    def warm_call_ns(self) -> float:
        """Return the median time of a call whose data is in the cache, by the runner's clock.

        It repeats one slot's contents, so it could be cheated; no verdict depends on it.
        """
        times = []
        for _ in range(_WARM_BATCHES):
            answer = self._runner.ask(self._warm_command(), CALL_TIMEOUT_S)
            times.append(self._runner.parse_time_ns(answer, "runner_ns") / self.batch_calls)
        self._runner.pause()
        return statistics.median(times)

    def repeat_batch(self, count: int) -> int:
        """Run one batch several times over; return how many calls that were. Nothing is judged."""
        command: RepeatCommand
        if self.uses_graph:
            command = {"command": "repeat", "graph_id": 0, "count": count}
        else:
            slots = list(self._slots[: self.batch_calls])
            command = {"command": "repeat", "slots": slots, "count": count}
        self._runner.ask(command, CALL_TIMEOUT_S)
        self._runner.pause()
        return count * self.batch_calls

    def busy_cores(self) -> float:
        """Return the mean number of cores that it keeps busy, over warm batches."""
        return self.threads.busy_cores(self._warm_command())

    def _warm_command(self) -> RunBatchCommand:
        if self.uses_graph:
            return {"command": "run-batch", "graph_id": _WARM_GRAPH}
        return {"command": "run-batch", "slots": [0] * self.batch_calls}

    def _draw_batch(self, *, single_call: bool) -> tuple[list[int], RunBatchCommand]:
        """Return the slots of the next batch, and the command that runs it."""
        if self.uses_graph:
            graph_id = _SINGLE_CALL_GRAPH if single_call else self._rng.randrange(_GRAPH_COUNT)
            return self._graph_slots[graph_id], {"command": "run-batch", "graph_id": graph_id}
        slots = self._rng.sample(self._slots, 1 if single_call else self.batch_calls)
        return slots, {"command": "run-batch", "slots": slots}

    def time_batch(
        self, draw_slots: DrawSlots = draw_none, *, single_call: bool = False
    ) -> TimedBatch:
        """Refresh the buffers, then time one batch; return it with what its calls left.

        The runner is stopped while its inputs are drawn, while others are timed, and from its
        answer on: the outputs that the judge reads then were computed within the measured time.

        Args:
            draw_slots: Draws the slots whose outputs to return, after the batch has ended.
            single_call: Time one call only, which the candidate cannot foresee.
        """
        slots, command = self._draw_batch(single_call=single_call)
        unused = sorted(set(self._slots) - set(slots))
        self._spare_slots = self._rng.sample(unused, min(1, len(unused)))
        idle_read_ns = self._buffers.refresh([*slots, *self._spare_slots])
        self._buffers.expect_calls(slots)
        self._runner.verify_stopped()
        waited_ns = self._total_runqueue_wait_ns()
        with share_core(self._runner.pid):
            start_s, start_ns = time.monotonic(), time.perf_counter_ns()
            answer = self._runner.ask(command, self._timeout_s, is_timed=True)
            self._runner.send_stop()
            judge_ns, outputs = self._buffers.sync_and_copy(slots, draw_slots, start_ns)
        self._runner.pause()
        self._timeout_s = max(_MIN_TIMEOUT_S, _TIMEOUT_FACTOR * judge_ns / 1e9)
        self.shares_outputs |= answer.get("shares_memory") is True
        batch = Batch(
            judge_ns=judge_ns,
            runner_ns=self._runner.parse_time_ns(answer, "runner_ns"),
            calls=len(slots),
            start_s=start_s,
            end_s=time.monotonic(),
            copy_ns=self._runner.parse_time_ns(answer, "copy_ns"),
            runqueue_wait_ns=self._total_runqueue_wait_ns() - waited_ns,
            idle_read_ns=idle_read_ns,
        )
        if self._buffers.case.target == "cpu":
            outputs = {slot: self.copy_outputs(slot) for slot in draw_slots(slots)}
        return TimedBatch(batch, slots, outputs)

    def time_single_calls(self, draw_slots: DrawSlots) -> TimedBatch:
        """Time calls none of which can do work of another; like ``time_batch``.

        On a CPU several, one by one, of which the batch holds the median; on a GPU one.
        """
        if self._buffers.case.target == "cuda":
            return self.time_batch(draw_slots, single_call=True)
        slots = self._rng.sample(self._slots, min(len(self._slots), MAX_CALLS))
        self._spare_slots = []  # the one of the last batch may be among them
        self._runner.verify_stopped()
        start_s = time.monotonic()
        calls = time_separate_calls(self._runner, self._buffers, slots)
        batch = Batch(calls.judge_ns, calls.runner_ns, 1, start_s, time.monotonic())
        outputs = {slot: calls.outputs[slot] for slot in draw_slots(slots)}
        return TimedBatch(batch, slots, outputs, calls.marks, calls.outputs)

    def find_successive_fault(self) -> str | None:
        """Report what is wrong with calls that follow one another without a pause; untimed.

        Each call's outputs are copied before the next one; all are compared. Only calls that are
        long enough to be timed one by one need this; with a single slot nothing is called.
        """
        most = min(len(self._slots), _MAX_SUCCESSIVE_CALLS)
        if most < _MIN_SUCCESSIVE_CALLS:
            return None
        slots = self._rng.sample(self._slots, self._rng.randint(_MIN_SUCCESSIVE_CALLS, most))
        self._spare_slots = []
        self._buffers.refresh(slots)
        self._runner.ask({"command": "call-slots", "slots": slots}, CALL_TIMEOUT_S)
        self._runner.pause()
        faults = (self.find_fault({slot: self.copy_outputs(slot)}) for slot in slots)
        fault = next((fault for fault in faults if fault), None)
        return f"{fault}, where calls followed one another without a pause" if fault else None

    def find_stream_order_fault(self) -> str | None:
        """Report a call that is wrong where its inputs are made on its stream, just before it.

        A GPU only. What the call launches must wait for earlier work on the stream that it is
        given, regardless of the streams that it uses itself.
        """
        slot, *self._spare_slots = self._rng.sample(self._slots, 2)
        self._buffers.refresh([slot, *self._spare_slots])
        self._runner.ask(
            {
                "command": "call-ordered",
                "slot": slot,
                "other_slot": self._spare_slots[0],
                "cycles": _ORDER_CYCLES,
            },
            CALL_TIMEOUT_S,
        )
        self._runner.pause()
        fault = self.find_fault({slot: self.copy_outputs(slot)})
        reason = "it does not wait for earlier work on the stream that it is given"
        return f"{fault}: {reason}" if fault else None

    def _total_runqueue_wait_ns(self) -> int:
        return runqueue_wait_ns(self._runner.pid) + thread_runqueue_wait_ns()

    def copy_outputs(self, slot: int) -> Tensors:
        """Return copies of what the last batch left as a slot's outputs."""
        return self._buffers.copy_outputs(slot, self._runner)

    def read_marks(self, slots: Sequence[int]) -> list[OutputMark]:
        """Return what each call of the last batch left at a few secret positions."""
        return self._buffers.read_marks(slots, self._runner)

    def find_fault(self, slot_outputs: dict[int, Tensors]) -> str | None:
        """Report what is wrong with the last batch.

        Args:
            slot_outputs: Outputs of some of its calls, by slot.
        """
        if not all(map(self._buffers.is_untouched, self._spare_slots)):
            return "it wrote outputs that it was not called for"
        faults = (find_slot_fault(self._buffers, *one) for one in slot_outputs.items())
        return next((fault for fault in faults if fault), None)
