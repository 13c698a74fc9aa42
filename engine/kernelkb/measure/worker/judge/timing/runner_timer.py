"""Times batches of one runner's calls, and separate calls, and looks at their outputs."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kernelkb.measure.worker.judge.case_buffers import (
    NOTHING_HIDDEN,
    CaseBuffers,
    describe_wrong,
    find_slot_fault,
)
from kernelkb.measure.worker.judge.core_waits import (
    BusyCores,
    CoreWaits,
    WaitMeter,
    count_busy_cores,
)
from kernelkb.measure.worker.judge.hidden_reference import HiddenReference
from kernelkb.measure.worker.judge.inputs.hidden_inputs import changes_anything
from kernelkb.measure.worker.judge.inputs.inputs import PreparedInputs, Tensors
from kernelkb.measure.worker.judge.procfs import (
    cpu_time_ns,
    list_runqueue_waits_ns,
    share_core,
    take_precedence,
)
from kernelkb.measure.worker.judge.returned_outputs import (
    DrawSlots,
    OutputMark,
    ReturnedArrays,
    ReturnedReader,
    UnknownMemoryError,
    draw_none,
    max_calls,
)
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError, make_printable
from kernelkb.measure.worker.shared.messages.jobs import Batch
from kernelkb.measure.worker.shared.messages.runner_commands import (
    Answer,
    CaptureCommand,
    RepeatCommand,
    RunBatchCommand,
)
from kernelkb.measure.worker.shared.messages.specs import Distribution

_SPIN_DOWN_S = 0.1
"""OpenMP threads spin for a while after a region before they sleep."""
_IDLE_SAMPLE_S = 0.05
"""How long to watch a process that runs without a command."""
_BUSY_SAMPLE_NS = 3e8
_THREADS_TIMEOUT_S = 60.0
MAX_CALLS = 16
_LEAD_CALLS = 1
"""Calls before those that count: the judge's own code is cold."""
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
_COMPARED_SUCCESSIVE_CALLS = 2


def _draw_only(slot: int) -> DrawSlots:
    return lambda _slots: [slot]


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

    def busy_cores(self, command: RunBatchCommand) -> BusyCores:
        """Return how many cores the process keeps busy, over 0.3 s of batches.

        Args:
            command: Runs one batch. The process is stopped afterwards.
        """
        time.sleep(_SPIN_DOWN_S)
        pid, wall_ns = self._runner.pid, 0
        before_ns, waited_ns = cpu_time_ns(pid), list_runqueue_waits_ns(pid)
        while wall_ns < _BUSY_SAMPLE_NS:
            start_ns = time.perf_counter_ns()
            self._runner.ask(command, _THREADS_TIMEOUT_S)
            wall_ns += time.perf_counter_ns() - start_ns
        waits = list_runqueue_waits_ns(pid)
        self._runner.pause()
        used_ns = cpu_time_ns(pid) - before_ns
        waits_ns = {thread: ns - waited_ns.get(thread, 0) for thread, ns in waits.items()}
        return count_busy_cores(wall_ns, used_ns, waits_ns.pop(pid, 0), sum(waits_ns.values()))

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
    left_ns: float
    """Waiting for cores in a call that may be the runner's own; see ``CoreWaits``."""
    outputs: dict[int, Tensors]
    """Copies, by slot."""
    marks: list[OutputMark]
    """In the order of the calls."""


def time_separate_calls(
    runner: RunnerProcess,
    buffers: CaseBuffers,
    slots: Sequence[int],
    prepared: Mapping[int, PreparedInputs] = NOTHING_HIDDEN,
) -> SeparateCalls:
    """Call on each slot; raises like ``RunnerProcess.ask``.

    The runner is stopped while inputs are drawn and outputs read: a thread of it that looks at the
    memory would begin the call before the clock does, or end it later.

    Args:
        runner: Bound to the buffers, and stopped.
        buffers: Of a CPU; the slots' inputs are drawn anew.
        slots: Two at least.
        prepared: Hidden inputs for some of them.
    """
    calls = list[tuple[float, float, float]]()
    outputs: dict[int, Tensors] = {}
    marks: list[OutputMark] = []
    for slot in slots:
        buffers.draw(slot, prepared.get(slot))
        buffers.expect_calls([slot])
        calls.append(_time_separate_call(runner, slot))
        marks += buffers.read_marks([slot], runner)
        outputs[slot] = buffers.copy_outputs(slot, runner)
    own, by_runner, left = map(statistics.median, zip(*calls[_LEAD_CALLS:], strict=True))
    return SeparateCalls(own, by_runner, left, outputs, marks)


def _time_separate_call(runner: RunnerProcess, slot: int) -> tuple[float, float, float]:
    """Return the first three times of ``SeparateCalls``, of one call; it is stopped again."""
    runner.verify_stopped()
    take_precedence(runner.pid)
    with runner.measure_waits() as waits:
        with share_core(runner.pid):
            start_ns = time.perf_counter_ns()
            command: RunBatchCommand = {"command": "run-batch", "slots": [slot]}
            answer = runner.ask(command, _TIMEOUT_S, is_timed=True)
            waits.note_answer(runner.answer_delay_ns)
            runner.send_stop()
            elapsed_ns = time.perf_counter_ns() - start_ns
            waits.note_end()
        runner.pause()
        waited = waits.finish(elapsed_ns)
    judge_ns = elapsed_ns + runner.late_ns - waited.foreign_ns
    return judge_ns, _parse_runner_ns(runner, answer, waited), waited.left_ns


def _parse_runner_ns(runner: RunnerProcess, answer: Answer, waited: CoreWaits) -> float:
    """Return the time of calls by the runner's clock, less what others had the core meanwhile.

    The runner reports how long it waited. Of that no more is taken off than the judge allows: what
    is not others' for certain is taken to have been waited during the calls.
    """
    own_ns = runner.parse_time_ns({"wait_ns": 0, **answer}, "wait_ns") - waited.first_left_ns
    return max(0.0, runner.parse_time_ns(answer, "runner_ns") - max(0.0, own_ns))


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
        returned: Where its code leaves the outputs that it returns, on a GPU.
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
        self.returned = ReturnedReader(runner, buffers.case)
        buffers.attach_runner(runner, timeout_s=CALL_TIMEOUT_S)
        runner.ask({"command": "call", "slot": 0, "fills_memory": False}, _FIRST_CALL_TIMEOUT_S)

    def plan_batches(self, calls: int, *, graph: bool) -> None:
        """Set the number of calls per batch, and whether batches are CUDA graphs.

        Args:
            calls: Limited to the number of slots less one, which stays untouched in each batch.
            graph: Capture graphs where that is possible. Batches of single launches use other slots
                each time; graphs are few and captured beforehand.
        """
        most = max_calls(self._buffers.case.output_specs)
        self.batch_calls = max(1, min(calls, self._buffers.slot_count - 1, most))
        self._timeout_s = CALL_TIMEOUT_S
        self.uses_graph, self.no_graph_reason = False, None
        self.returned.restart()
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
            self.returned.note_graph(graph_id, answer)
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

    def pause(self) -> None:
        """Stop its process, as after a batch that has ended with an error."""
        self._runner.pause()

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

    def busy_cores(self) -> BusyCores:
        """Return how many cores it keeps busy, over warm batches."""
        return self.threads.busy_cores(self._warm_command())

    def _warm_command(self) -> RunBatchCommand:
        if self.uses_graph:
            return {"command": "run-batch", "graph_id": _WARM_GRAPH}
        return {"command": "run-batch", "slots": [0] * self.batch_calls}

    def _draw_batch(self, *, single_call: bool) -> tuple[list[int], RunBatchCommand]:
        """Return the slots of the next batch, and the command that runs it."""
        command: RunBatchCommand
        if self.uses_graph:
            graph_id = _SINGLE_CALL_GRAPH if single_call else self._rng.randrange(_GRAPH_COUNT)
            slots = self._graph_slots[graph_id]
            command = {"command": "run-batch", "graph_id": graph_id}
        else:
            slots = self._rng.sample(self._slots, 1 if single_call else self.batch_calls)
            command = {"command": "run-batch", "slots": slots}
        if self.returned.is_copied:
            command["copies"] = True
        return slots, command

    def time_batch(
        self,
        draw_slots: DrawSlots = draw_none,
        *,
        single_call: bool = False,
        hidden: PreparedInputs | None = None,
    ) -> TimedBatch:
        """Refresh the buffers, then time one batch; return it with what its calls left.

        The runner is stopped while its inputs are drawn, while others are timed, and from its
        answer on: the outputs that the judge reads then were computed within the measured time. On
        a CPU, what its threads did until the last had stopped is added to it.

        Args:
            draw_slots: Draws the slots whose outputs to return, after the batch has ended.
            single_call: Time one call only, which the candidate cannot foresee.
            hidden: Inputs of one call, which is drawn, and whose outputs are returned. Nothing else
                differs from a batch without.
        """
        while True:  # until the judge has opened the memory of all outputs
            try:
                return self._time_batch(draw_slots, single_call=single_call, hidden=hidden)
            except UnknownMemoryError as error:
                self._runner.pause()
                self.returned.open(error.addresses)

    def _time_batch(
        self, draw_slots: DrawSlots, *, single_call: bool, hidden: PreparedInputs | None
    ) -> TimedBatch:
        slots, command = self._draw_batch(single_call=single_call)
        prepared = self._hide(hidden, slots)
        draw_slots = _draw_only(*prepared) if prepared else draw_slots
        replayed = self.returned.locate_replayed(command, slots)
        idle_read_ns = self._prepare(slots, prepared, replayed)
        take_precedence(self._runner.pid)
        with self._runner.measure_waits() as waits:
            with share_core(self._runner.pid):
                start_s, start_ns = time.monotonic(), time.perf_counter_ns()
                answer = self._runner.ask(command, self._timeout_s, is_timed=True)
                waits.note_answer(self._runner.answer_delay_ns)
                self._runner.send_stop()
                judge_ns, outputs = self._buffers.sync_and_copy(
                    slots, draw_slots, start_ns, self.returned.make_finder(answer, slots)
                )
                waits.note_end()
            self._runner.pause()
            waited = self._find_waits(waits, judge_ns)
        batch = self._make_batch(answer, judge_ns, len(slots), waited)
        batch = batch._replace(start_s=start_s, idle_read_ns=idle_read_ns)
        if self._buffers.case.target == "cpu":
            outputs = {slot: self.copy_outputs(slot) for slot in draw_slots(slots)}
        return TimedBatch(batch, slots, outputs)

    def _make_batch(self, answer: Answer, judge_ns: float, calls: int, waited: CoreWaits) -> Batch:
        """Return a batch that has ended; on a CPU with what its threads did until they stopped."""
        if self._buffers.case.target == "cpu":
            judge_ns += self._runner.late_ns
        self._timeout_s = max(_MIN_TIMEOUT_S, _TIMEOUT_FACTOR * judge_ns / 1e9)
        self.shares_outputs |= answer.get("shares_memory") is True
        now_s = time.monotonic()
        judge_ns, runner_ns, copy_ns = self.returned.charge_copies(
            judge_ns - waited.foreign_ns,
            _parse_runner_ns(self._runner, answer, waited),
            self._runner.parse_time_ns(answer, "copy_ns"),
        )
        return Batch(
            judge_ns=judge_ns,
            runner_ns=runner_ns,
            calls=calls,
            start_s=now_s,
            end_s=now_s,
            copy_ns=copy_ns,
            runqueue_wait_ns=waited.left_ns,
            foreign_wait_ns=waited.foreign_ns,
        )

    def _hide(
        self, hidden: PreparedInputs | None, slots: Sequence[int]
    ) -> Mapping[int, PreparedInputs]:
        """Return hidden inputs, if there are any, for a slot that is drawn from a batch's."""
        return {self._rng.choice(slots): hidden} if hidden else NOTHING_HIDDEN

    def _prepare(
        self,
        slots: Sequence[int],
        prepared: Mapping[int, PreparedInputs],
        returned: Sequence[ReturnedArrays],
    ) -> float:
        """Refresh the slots of a batch, and a spare one; return what ``refresh`` does."""
        unused = sorted(set(self._slots) - set(slots))
        self._spare_slots = self._rng.sample(unused, min(1, len(unused)))
        idle_read_ns = self._buffers.refresh([*slots, *self._spare_slots], prepared)
        self._buffers.expect_calls(slots, returned)
        self._runner.verify_stopped()
        return idle_read_ns

    def time_single_calls(
        self, draw_slots: DrawSlots = draw_none, hidden: PreparedInputs | None = None
    ) -> TimedBatch:
        """Time calls none of which can do work of another; like ``time_batch``.

        On a CPU several, one by one, of which the batch holds the median; on a GPU one.
        """
        if self._buffers.case.target == "cuda":
            return self.time_batch(draw_slots, single_call=True, hidden=hidden)
        slots = self._rng.sample(self._slots, min(len(self._slots), MAX_CALLS))
        self._spare_slots = []  # the one of the last batch may be among them
        start_s = time.monotonic()
        prepared = self._hide(hidden, slots)
        draw_slots = _draw_only(*prepared) if prepared else draw_slots
        calls = time_separate_calls(self._runner, self._buffers, slots, prepared)
        batch = Batch(calls.judge_ns, calls.runner_ns, 1, start_s, time.monotonic())
        batch = batch._replace(runqueue_wait_ns=calls.left_ns)
        outputs = {slot: calls.outputs[slot] for slot in draw_slots(slots)}
        return TimedBatch(batch, slots, outputs, calls.marks, calls.outputs)

    def find_successive_fault(self) -> str | None:
        """Report what is wrong with calls that follow one another without a pause; untimed.

        Each call's outputs are copied before the next one; those of two calls, which are drawn when
        all have ended, are compared. Only calls that are long enough to be timed one by one need
        this; with a single slot nothing is called.
        """
        most = min(len(self._slots), _MAX_SUCCESSIVE_CALLS)
        if most < _MIN_SUCCESSIVE_CALLS:
            return None
        slots = self._rng.sample(self._slots, self._rng.randint(_MIN_SUCCESSIVE_CALLS, most))
        self._spare_slots = []
        self._buffers.refresh(slots)
        self._runner.ask({"command": "call-slots", "slots": slots}, CALL_TIMEOUT_S)
        self._runner.pause()
        drawn = self._rng.sample(slots, _COMPARED_SUCCESSIVE_CALLS)
        faults = (self.find_fault({slot: self.copy_outputs(slot)}) for slot in drawn)
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

    def _find_waits(self, waits: WaitMeter, elapsed_ns: float) -> CoreWaits:
        """Return what was waited. A GPU works on meanwhile, so there nothing is others' time."""
        waited = waits.finish(elapsed_ns)
        if self._buffers.case.target == "cpu":
            return waited
        return CoreWaits(0.0, waited.foreign_ns + waited.left_ns)

    def copy_outputs(self, slot: int) -> Tensors:
        """Return copies of what the last batch left as a slot's outputs."""
        return self._buffers.copy_outputs(slot, self._runner)

    def read_marks(self, slots: Sequence[int]) -> list[OutputMark]:
        """Return what each call of the last batch left at a few secret positions."""
        return self._buffers.read_marks(slots, self._runner)

    def list_distributions(self) -> list[Distribution]:
        """Return the hidden distributions of the case that change an input."""
        case, inputs = self._buffers.case, self._buffers.inputs(self._slots[0])
        if not case.plan.has_distributions:
            return []
        return [one for one in case.case_spec["distributions"] if changes_anything(one, inputs)]

    def prepare_hidden(
        self, distribution: Distribution, own_rms: Sequence[float]
    ) -> tuple[PreparedInputs, HiddenReference]:
        """Return hidden inputs for a later batch, and what is right for them.

        Args:
            distribution: Which.
            own_rms: Of ``measure_own_rms``.

        Raises:
            UndefinedError: The reference does not say what is right.
        """
        prepared = self._buffers.input_generator.prepare(distribution)
        case, tolerances = self._buffers.case, self._buffers.tolerances
        return prepared, HiddenReference(case, prepared.arrays, distribution, tolerances, own_rms)

    def measure_own_rms(self) -> list[float]:
        """Return the root mean square of each output for inputs as they are drawn."""
        return self._buffers.compute_reference(self._slots[0]).root_mean_squares()

    def find_hidden_fault(self, timed: TimedBatch, reference: HiddenReference) -> str | None:
        """Report what is wrong with the call on hidden inputs, the last batch's.

        Args:
            timed: That batch.
            reference: Of the inputs.
        """
        ((slot, outputs),) = timed.outputs.items()
        if not all(map(self._buffers.is_untouched, self._spare_slots)):
            return "it wrote outputs that it was not called for"
        with self._buffers.case.judging():
            return self._buffers.find_tampering(slot) or describe_wrong(reference.compare(outputs))

    def find_fault(self, slot_outputs: dict[int, Tensors]) -> str | None:
        """Report what is wrong with the last batch.

        Args:
            slot_outputs: Outputs of some of its calls, by slot.
        """
        if not all(map(self._buffers.is_untouched, self._spare_slots)):
            return "it wrote outputs that it was not called for"
        faults = (find_slot_fault(self._buffers, *one) for one in slot_outputs.items())
        return next((fault for fault in faults if fault), None)
