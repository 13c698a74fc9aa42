"""Shared arrays of a case, the candidate's calls on them, and what is wrong with outputs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from types import MappingProxyType
from typing import Final

import torch

from kernelkb.measure.worker.judge.compare.compare import ReferenceOutputs
from kernelkb.measure.worker.judge.inputs.inputs import (
    InputGenerator,
    KernelCase,
    PreparedInputs,
    Tensors,
    byte_view,
    is_poisoned,
    may_be_unwritten,
    poison,
    same_bits,
)
from kernelkb.measure.worker.judge.inputs.memory_plan import split_flat
from kernelkb.measure.worker.judge.procfs import is_mapped_from_file, thread_runqueue_wait_ns
from kernelkb.measure.worker.judge.returned_outputs import (
    DrawSlots,
    OutputMark,
    OutputMarker,
    ReturnedArrays,
    copy_array,
)
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError, UnsupportedHost
from kernelkb.measure.worker.shared.memory import (
    Arena,
    Layout,
    clearing_s,
    release_torch_cache,
)
from kernelkb.measure.worker.shared.messages.jobs import CaseResult, OutputComparison
from kernelkb.measure.worker.shared.messages.runner_commands import CallCommand
from kernelkb.measure.worker.shared.messages.specs import Tolerances

_OPEN_TIMEOUT_S = 60.0
_CLOCK_RAMP_S = 0.1
"""How long to read before a GPU's clocks have risen from idle."""
_MIN_REQUEST_S = 0.1
_LOCATE_CYCLES = 4_000_000
"""Of the GPU's clock, some 2 ms, in which the judge finds out where outputs are: that takes 0.5 ms,
and 1.9 for 512 calls. It keeps the GPU busy meanwhile: else a runner's kernel that still runs would
go on, unseen and not timed."""
NOTHING_HIDDEN: Final[Mapping[int, PreparedInputs]] = MappingProxyType({})


class CaseBuffers:
    """Slots of one case: each holds all input and output arrays once.

    Attributes:
        case: What is computed.
        slot_count: Number of slots.
        tolerances: The kernel's own, by dtype.
        arena: The memory that judge and runners share.
        input_generator: Draws the slots' inputs.
        observer: Of every ``ReferenceOutputs`` that it makes.
    """

    observer: Callable[[ReferenceOutputs, Tensors], None] | None = None

    def __init__(
        self,
        case: KernelCase,
        tolerances: Tolerances,
        slot_count: int,
        rng: random.Random,
        flush_bytes: int,
    ) -> None:
        """Allocate the slots, fill their inputs and poison their outputs.

        Args:
            case: What is computed.
            tolerances: The kernel's own, by dtype.
            slot_count: Number of slots.
            rng: Source of offsets and seeds.
            flush_bytes: How much to read to evict everything from the cache.

        Raises:
            UnsupportedHost: The memory cannot be allocated or shared.
        """
        torch.set_grad_enabled(False)
        self.case, self.slot_count = case, slot_count
        self.tolerances = tolerances
        self._layout = Layout([*case.input_specs, *case.output_specs], slot_count, rng)
        self.arena = Arena(self._layout.size, case.target)
        self._pointer_table = self.arena.pointer_table(self._layout.pointer_table_offset)
        self._runners: list[RunnerProcess] = []
        self._borrowing_slots: set[int] = set()
        self._returned: dict[int, tuple[int, list[ReturnedArrays]]] = {}
        self._layout.write_canaries(self.arena)
        self._arrays = [self._layout.arrays(self.arena, slot) for slot in range(slot_count)]
        self._marker = OutputMarker(case, self._layout.offsets, self.arena.bytes)
        self.input_generator = InputGenerator(case, rng)
        for slot in range(slot_count):
            self.draw(slot)
        self._synchronize()
        self._flush_buffer = torch.ones(max(1, flush_bytes // 4), device=case.device)

    def attach_runner(self, runner: RunnerProcess, *, timeout_s: float) -> None:
        """Let a runner open the memory and bind its code to every slot.

        Raises:
            UnsupportedHost: It cannot open the memory.
            RunnerError: Its code cannot be bound.
            RunnerDied: It ended.
        """
        files = () if self.arena.descriptor is None else (self.arena.descriptor,)
        self._runners.append(runner)
        try:
            runner.ask(
                {
                    "command": "open",
                    "bytes": self.arena.size,
                    "handle": self.arena.handle,
                    "pointer_table_offset": self._layout.pointer_table_offset,
                },
                _OPEN_TIMEOUT_S,
                *files,
            )
        except RunnerError as error:
            raise UnsupportedHost(str(error)) from error
        runner.ask(
            {
                "command": "bind",
                "specs": self._layout.specs,
                "offsets": self._layout.offsets,
                "input_count": len(self.case.input_specs),
                "scalars": self.case.scalars,
                "axes": self.case.case_spec["axes"],
            },
            timeout_s,
        )

    def inputs(self, slot: int) -> Tensors:
        """Return a slot's inputs, as views of shared memory: one for each of ``input_specs``."""
        return self._arrays[slot][: len(self.case.input_specs)]

    def outputs(self, slot: int) -> Tensors:
        """Return a slot's outputs, as views of shared memory: one for each of ``output_specs``."""
        return self._arrays[slot][len(self.case.input_specs) :]

    def refresh(
        self, slots: Sequence[int], prepared: Mapping[int, PreparedInputs] = NOTHING_HIDDEN
    ) -> float:
        """Draw new inputs for some slots, poison their outputs, and flush the cache.

        What that frees has been cleared when this returns.

        Args:
            slots: Which.
            prepared: Hidden inputs for some of them, written over those that were drawn: to prepare
                a slot takes the same time, whatever it holds.

        Returns:
            Nanoseconds of one read of the flush buffer; see ``idle_read_ns``.
        """
        cleared_s = time.monotonic() + clearing_s(release_torch_cache())
        for slot in slots:
            self.draw(slot, prepared.get(slot))
        cleared_s = max(cleared_s, time.monotonic()) + clearing_s(release_torch_cache())
        if self.arena.cuda is not None:
            self.arena.cuda.reset_persisting_l2()
            self._synchronize()
            time.sleep(max(0.0, cleared_s - time.monotonic()))
        return self._flush_and_time_ns()

    def draw(self, slot: int, prepared: PreparedInputs | None = None) -> None:
        """Draw new inputs for a slot, or take prepared ones, and poison its outputs."""
        if prepared is None or not self.case.plan.in_pieces:  # else there is no room for both
            self.input_generator.refill(slot, self.inputs(slot))
        if prepared is not None:
            self.input_generator.replace(slot, self.inputs(slot), prepared)
        self._fill_initial_outputs(slot)

    def idle_read_ns(self) -> float:
        """Return the shortest time of a read of the flush buffer, nanoseconds; 0 on a CPU.

        A GPU that does other work takes longer, even with all runners stopped: kernels that were
        launched before run on.
        """
        if self.case.target != "cuda":
            return 0.0
        end = time.monotonic() + _CLOCK_RAMP_S
        times = [self._flush_and_time_ns()]
        while time.monotonic() < end:
            times.append(self._flush_and_time_ns())
        return min(times)

    def _flush_and_time_ns(self) -> float:
        """Flush the cache by reading, which leaves no dirty lines; on a GPU time a second read."""
        self._flush_buffer.sum()
        self._synchronize()
        if self.case.target != "cuda":
            return 0.0
        # The first read may ask the driver for memory, which takes 0.5 ms.
        waited, start = thread_runqueue_wait_ns(), time.perf_counter_ns()
        self._flush_buffer.sum()
        self._synchronize()
        return float(time.perf_counter_ns() - start - (thread_runqueue_wait_ns() - waited))

    def expect_calls(self, slots: Sequence[int], returned: Sequence[ReturnedArrays] = ()) -> None:
        """Prepare ``sync_and_copy`` and ``read_marks`` for a batch on some slots.

        Args:
            slots: Of the batch.
            returned: Where its calls leave their outputs, on a GPU; nothing: in these buffers.
        """
        self._marker.expect_calls(slots)
        self.note_returned(slots, returned)
        self._synchronize()

    def note_returned(self, slots: Sequence[int], returned: Sequence[ReturnedArrays]) -> None:
        """Read outputs where the calls of a batch have left them; arguments of ``expect_calls``."""
        self._marker.expect_returned(slots, returned)
        for index, slot in enumerate(slots if returned else ()):
            self._returned[slot] = index, list(returned)

    def sync_and_copy(
        self,
        slots: Sequence[int],
        draw_slots: DrawSlots,
        start_ns: int,
        find_returned: Callable[[], Sequence[ReturnedArrays]] | None = None,
    ) -> tuple[float, dict[int, Tensors]]:
        """Return nanoseconds until the GPU has done this process's work, and copies of outputs.

        A runner's kernel may still be running then, time-sliced with ours. So the marks are read at
        once, and ``read_marks`` tells whether they changed. On a CPU nothing is copied: a stopped
        process writes nothing more.

        Args:
            slots: Of the batch.
            draw_slots: Draws those whose outputs to copy, now that the batch has ended.
            start_ns: When the clock started, by ``time.perf_counter_ns``.
            find_returned: Says where the calls have left their outputs, once that is known.
        """
        if self.case.target != "cuda":
            return float(time.perf_counter_ns() - start_ns), {}
        self._flush_buffer[:1].add_(0)
        reached = torch.cuda.Event()
        reached.record()
        if find_returned is None:
            self._marker.take()
        else:
            torch.cuda._sleep(_LOCATE_CYCLES)
        reached.synchronize()
        elapsed = float(time.perf_counter_ns() - start_ns)
        if find_returned is not None:
            self.note_returned(slots, find_returned())
            self._marker.take()
        copies = {slot: self.copy_outputs(slot) for slot in draw_slots(slots)}
        self._synchronize()
        return elapsed, copies

    def read_marks(self, slots: Sequence[int], runner: RunnerProcess) -> list[OutputMark]:
        """Return what each call of the last batch left at a few secret positions.

        Args:
            slots: Those of ``expect_calls``.
            runner: Whose code was called; it must be stopped.
        """
        if self.case.target == "cuda":
            return self._marker.parse()
        self._marker.take()
        addresses = [
            [self._pointer_table[index] for index in self._pointer_indices(slot)] for slot in slots
        ]
        return self._marker.parse(addresses, runner.read_memory)

    def reset_outputs(self, slot: int) -> None:
        """Fill a slot's outputs as they are before a call: poisoned, or with their start values."""
        self._fill_initial_outputs(slot)
        self._synchronize()

    def _fill_initial_outputs(self, slot: int) -> None:
        self._returned.pop(slot, None)
        inputs = self._inputs_by_name(slot)
        for spec, array in zip(self.case.output_specs, self.outputs(slot), strict=True):
            if spec["starts_as"]:
                array.copy_(inputs[spec["starts_as"]])
            else:
                poison([array])
        if self.case.target == "cpu":
            for index in self._pointer_indices(slot):
                self._pointer_table[index] = 0

    def _inputs_by_name(self, slot: int) -> dict[str, torch.Tensor]:
        names = (spec["name"] for spec in self.case.input_specs)
        return dict(zip(names, self.inputs(slot), strict=True))

    def _pointer_indices(self, slot: int) -> range:
        count = len(self.case.output_specs)
        return range(slot * count, (slot + 1) * count)

    def is_untouched(self, slot: int) -> bool:
        """Return whether a slot's outputs are as they were before the call."""
        inputs = self._inputs_by_name(slot)
        return all(
            same_bits(array, inputs[spec["starts_as"]])
            if spec["starts_as"]
            else is_poisoned([array])
            for spec, array in zip(self.case.output_specs, self.outputs(slot), strict=True)
        )

    def copy_outputs(self, slot: int, runner: RunnerProcess | None = None) -> Tensors:
        """Return copies of a slot's current outputs.

        Args:
            slot: Which.
            runner: A runner whose code may have returned its outputs: on a CPU they are then read
                from its own memory, at the addresses that it published.
        """
        copies = self._copy_returned(slot)
        self._borrowing_slots.discard(slot)
        if runner is not None and self.case.target == "cpu":
            addresses = [self._pointer_table[index] for index in self._pointer_indices(slot)]
            if self._borrows(slot, addresses, runner):
                self._borrowing_slots.add(slot)
            with self._inverted_inputs(slot) if any(addresses) else nullcontext():
                for address, copy in zip(addresses, copies, strict=True):
                    if address:
                        self._marker.read_array(runner.read_memory, address, copy)
        self._synchronize()
        return copies

    def _copy_returned(self, slot: int) -> Tensors:
        """Return copies of a slot's outputs, from a runner's GPU memory where they are there."""
        index, returned = self._returned.get(slot, (0, []))
        copies = []
        for number, (spec, own) in enumerate(
            zip(self.case.output_specs, self.outputs(slot), strict=True)
        ):
            is_own = not returned or not int(returned[number].addresses[index])
            copies.append(own.clone() if is_own else copy_array(returned[number], index, spec))
        return copies

    def _borrows(self, slot: int, addresses: Sequence[int], runner: RunnerProcess) -> bool:
        """Return whether outputs are pages of a file or of shared memory, and not its own.

        Unless the reference itself returns memory of an input, which is shared.
        """
        pieces = zip(addresses, self.outputs(slot), strict=True)
        return any(
            address and is_mapped_from_file(runner.pid, address, output.nbytes)
            for address, output in pieces
        ) and not self.case.returns_views(self.input_generator.regenerate(slot))

    @contextmanager
    def _inverted_inputs(self, slot: int) -> Iterator[None]:
        """Invert every bit of a slot's inputs: what is memory of an input is then seen to be.

        Unless the reference itself returns such memory.
        """
        if self.case.returns_views(self.input_generator.regenerate(slot)):
            yield
            return
        chunks = [chunk for array in self.inputs(slot) for chunk in split_flat(byte_view(array))]
        for chunk in chunks:
            chunk.bitwise_not_()
        try:
            yield
        finally:
            for chunk in chunks:
                chunk.bitwise_not_()

    def compute_reference(self, slot: int, *, sampled: bool = False) -> ReferenceOutputs:
        """Return the correct outputs for a slot's current inputs, or for a sample of their rows."""
        release_torch_cache()
        inputs = self.input_generator.regenerate(slot)
        reference = ReferenceOutputs(self.case, inputs, self.tolerances, sampled=sampled)
        reference.observer = self.observer
        return reference

    def find_tampering(self, slot: int) -> str | None:
        """Report whether the candidate modified an input or a guard region of a slot.

        Or whether what it returned, when that was copied last, was not memory of its own.
        """
        pairs = zip(self.inputs(slot), self.input_generator.regenerate(slot), strict=True)
        for spec, (current, drawn) in zip(self.case.input_specs, pairs, strict=True):
            if not same_bits(current, drawn):
                return f"it changed its input {spec['name']}"
        if slot in self._borrowing_slots:
            return "it returned memory that a file or another array may share, not its own"
        if self._layout.is_guard_damaged(self.arena, slot):
            return "it wrote outside its arrays"
        return None

    def close(self) -> None:
        """Free the memory, after every runner has unmapped it."""
        for runner in self._runners:
            if not runner.is_closed:
                with suppress(RunnerDied, RunnerError):
                    runner.ask({"command": "close"}, _OPEN_TIMEOUT_S)
        self._arrays.clear()
        self._marker.release()
        self._pointer_table.release()
        self.input_generator.forget()
        self.arena.close()

    def _synchronize(self) -> None:
        if self.case.target == "cuda":
            torch.cuda.synchronize()


def remaining_s(candidate: RunnerProcess, timeout_s: float) -> float:
    """Return what is left of the candidate's time; the judge's own time does not count."""
    return max(_MIN_REQUEST_S, timeout_s - candidate.total_request_s)


def call_once(
    buffers: CaseBuffers, candidate: RunnerProcess, slot: int, timeout_s: float
) -> tuple[Tensors, str | None]:
    """Return copies of a slot's outputs after one call, and the error that was reported."""
    buffers.reset_outputs(slot)
    command: CallCommand = {"command": "call", "slot": slot, "fills_memory": True}
    try:
        candidate.ask(command, remaining_s(candidate, timeout_s))
    except RunnerError as error:
        return buffers.copy_outputs(slot), str(error)
    return buffers.copy_outputs(slot), None


def build_result(
    buffers: CaseBuffers, slot: int, comparison: OutputComparison, kernel_error: str | None
) -> CaseResult:
    """Return the result of one call, with what the candidate wrote besides its outputs."""
    return {
        **comparison,
        "name": buffers.case.case_spec["name"],
        "kernel_error": kernel_error,
        "tampering": buffers.find_tampering(slot),
        "is_deterministic": True,
        "has_tf32_error": False,
        "error_shape": [],
    }


def is_passing(result: CaseResult) -> bool:
    """Return whether the outputs are correct and nothing else was wrong."""
    return result["correct"] and not result["kernel_error"] and not result["tampering"]


def find_slot_fault(buffers: CaseBuffers, slot: int, outputs: Tensors) -> str | None:
    """Report what is wrong with a call: it changed memory that is not its own, or is incorrect.

    Args:
        buffers: Of the batch.
        slot: That of the call.
        outputs: Copies of what the call left.
    """
    tampering = buffers.find_tampering(slot)
    if tampering:
        return tampering
    return describe_wrong(compare_call(buffers, slot, outputs))


def describe_wrong(comparison: OutputComparison) -> str | None:
    """Say how a timed call was wrong; None if it was right."""
    if comparison["correct"]:
        return None
    if comparison["nan_count"]:
        return f"{comparison['nan_count']} elements were not written when the call had returned"
    return f"a timed call was wrong in {1 - comparison['matched_ratio']:.1%} of its elements"


def compare_call(buffers: CaseBuffers, slot: int, outputs: Tensors) -> OutputComparison:
    """Compare outputs, or a sample of their rows where comparing all of them took long.

    All elements are looked at for ones that were not written: then the whole outputs decide.

    Args:
        buffers: Of the call.
        slot: Its.
        outputs: Copies of what it left.
    """
    with buffers.case.judging():
        if buffers.case.may_sample("drawn") and not may_be_unwritten(outputs):
            return buffers.compute_reference(slot, sampled=True).compare(outputs)
        start_s = time.monotonic()
        comparison = buffers.compute_reference(slot).compare(outputs)
        buffers.case.comparison_times["drawn"].append(time.monotonic() - start_s)
        return comparison
