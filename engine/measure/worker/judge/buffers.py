"""Judge, runner and shared memory, set up for one case."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from kernelkb.measure.worker.judge.compare import ReferenceOutputs
from kernelkb.measure.worker.judge.inputs import (
    InputGenerator,
    KernelCase,
    Tensors,
    byte_view,
    is_poisoned,
    poison,
    same_bits,
)
from kernelkb.measure.worker.judge.procfs import thread_runqueue_wait_ns
from kernelkb.measure.worker.judge.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError, UnsupportedHost
from kernelkb.measure.worker.shared.memory import Arena, Layout, release_torch_cache

Job = dict[str, Any]

_OPEN_TIMEOUT_S = 60.0
_CLOCK_RAMP_S = 0.1


class CaseBuffers:
    """Slots of one case in one piece of memory that every runner has open.

    Attributes:
        slot_count: How many copies of all arrays there are.
    """

    def __init__(
        self,
        case: KernelCase,
        tolerances: Job,
        slot_count: int,
        rng: random.Random,
        flush_bytes: int,
    ) -> None:
        """Allocate and fill.

        Args:
            case: What to compute.
            tolerances: By type; see ``kernelkb.measure.worker.judge.compare``.
            slot_count: How many copies of all arrays.
            rng: Where chance comes from.
            flush_bytes: How much must be read to push everything out of the cache.
        """
        torch.set_grad_enabled(False)
        self.case, self.slot_count = case, slot_count
        self._tolerances = tolerances
        self._layout = Layout([*case.input_specs, *case.output_specs], slot_count, rng)
        self._arena = Arena(self._layout.size, case.target)
        self._pointer_table = self._arena.pointer_table(self._layout.pointer_table_offset)
        self._runners: list[RunnerProcess] = []
        self._layout.write_canaries(self._arena)
        self._arrays = [self._layout.arrays(self._arena, slot) for slot in range(slot_count)]
        self.input_generator = InputGenerator(case, rng)
        for slot in range(slot_count):
            self.input_generator.refill(slot, self.inputs(slot))
            self._fill_initial_outputs(slot)
        self._synchronize()
        self._flush_buffer = torch.ones(max(1, flush_bytes // 4), device=case.device)

    def attach_runner(self, runner: RunnerProcess, *, timeout_s: float) -> None:
        """Let a runner open the memory and tie its code to every slot.

        Raises:
            Unfit: The memory cannot be opened there.
            Refused: The code cannot be tied to it.
            RunnerLost: There is no runner any more.
        """
        files = () if self._arena.descriptor is None else (self._arena.descriptor,)
        self._runners.append(runner)
        try:
            runner.ask(
                "open",
                _OPEN_TIMEOUT_S,
                *files,
                bytes=self._arena.size,
                handle=self._arena.handle,
                places=self._layout.pointer_table_offset,
            )
        except RunnerError as problem:
            raise UnsupportedHost(f"{problem}; see what kb env says of this GPU") from problem
        runner.ask(
            "bind",
            timeout_s,
            specs=[*self.case.input_specs, *self.case.output_specs],
            offsets=self._layout.offsets,
            input_count=len(self.case.input_specs),
            scalars=self.case.scalars,
            axes=self.case.case_spec["axes"],
        )

    def inputs(self, slot: int) -> Tensors:
        """Return a slot's inputs, as they lie in shared memory."""
        return self._arrays[slot][: len(self.case.input_specs)]

    def outputs(self, slot: int) -> Tensors:
        """Return a slot's outputs, as they lie in shared memory."""
        return self._arrays[slot][len(self.case.input_specs) :]

    def refresh(self, slots: list[int]) -> float:
        """Change the inputs of some slots, poison their outputs, and empty the cache.

        Returns what ``quiet_ns`` does, of this once.
        """
        release_torch_cache()
        for slot in slots:
            self.input_generator.refill(slot, self.inputs(slot))
            self._fill_initial_outputs(slot)
        if self._arena.cuda is not None:
            self._arena.cuda.reset_persisting_l2()
        return self._flush_and_time_ns()

    def idle_read_ns(self) -> float:
        """Return how long it takes to read what fills the cache, nanoseconds; 0 on a CPU.

        A GPU that does work of others as well takes longer, even when all processes stand still:
        kernels that were launched go on.
        """
        if self.case.target != "cuda":
            return 0.0
        end = time.monotonic() + _CLOCK_RAMP_S  # clocks that rested rise
        found = [self._flush_and_time_ns()]
        while time.monotonic() < end:
            found.append(self._flush_and_time_ns())
        return min(found)

    def _flush_and_time_ns(self) -> float:
        """Empty the cache; reading leaves no lines that the candidate would have to write back.

        The second time tells: the first may have to ask the driver for memory, for 0.5 ms.
        """
        self._flush_buffer.sum()
        self._synchronize()
        waited, clock = thread_runqueue_wait_ns(), time.perf_counter_ns()
        self._flush_buffer.sum()
        self._synchronize()
        took = time.perf_counter_ns() - clock - (thread_runqueue_wait_ns() - waited)
        return float(took) if self.case.target == "cuda" else 0.0

    def sync_and_copy(
        self, slots: Sequence[int], start_ns: int
    ) -> tuple[float, dict[int, Tensors]]:
        """Return the nanoseconds until the GPU does this process's work, and some slots' outputs.

        A runner's kernel may still be running then, in turn with ours. So the copies follow at
        once: they hold what was done by now, not what is done while the judge thinks. On a CPU
        there are none; what is stopped there does nothing more.

        Args:
            slots: Which outputs to copy.
            start_ns: When the clock began, by ``time.perf_counter_ns``.
        """
        if self.case.target != "cuda":
            return float(time.perf_counter_ns() - start_ns), {}
        self._flush_buffer[:1].add_(0)
        here = torch.cuda.Event()
        here.record()
        made = {slot: [tensor.clone() for tensor in self.outputs(slot)] for slot in slots}
        here.synchronize()
        took = float(time.perf_counter_ns() - start_ns)
        self._synchronize()
        return took, made

    def reset_outputs(self, slot: int) -> None:
        """Make the outputs of a slot what they are before a call."""
        self._fill_initial_outputs(slot)
        self._synchronize()

    def _fill_initial_outputs(self, slot: int) -> None:
        given = dict(
            zip((s["name"] for s in self.case.input_specs), self.inputs(slot), strict=True)
        )
        for spec, array in zip(self.case.output_specs, self.outputs(slot), strict=True):
            if spec.get("starts_as"):
                array.copy_(given[spec["starts_as"]])
            else:
                poison([array])
        if self.case.target == "cpu":
            for at in self._pointer_indices(slot):
                self._pointer_table[at] = 0

    def _pointer_indices(self, slot: int) -> range:
        count = len(self.case.output_specs)
        return range(slot * count, (slot + 1) * count)

    def is_untouched(self, slot: int) -> bool:
        """Return whether nobody has written a slot's outputs since they were poisoned."""
        given = dict(
            zip((s["name"] for s in self.case.input_specs), self.inputs(slot), strict=True)
        )
        return all(
            same_bits(array, given[spec["starts_as"]])
            if spec.get("starts_as")
            else is_poisoned([array])
            for spec, array in zip(self.case.output_specs, self.outputs(slot), strict=True)
        )

    def copy_outputs(self, slot: int, runner: RunnerProcess | None = None) -> Tensors:
        """Return copies of a slot's outputs as they are at this moment.

        Args:
            slot: Which.
            runner: Who may have returned them, and so has them in memory of its own.
        """
        made = [tensor.clone() for tensor in self.outputs(slot)]
        if runner is not None and self.case.target == "cpu":
            for at, one in zip(self._pointer_indices(slot), made, strict=True):
                seen = (
                    runner.read_memory(self._pointer_table[at], one.nbytes)
                    if self._pointer_table[at]
                    else b""
                )
                if seen:
                    byte_view(one).copy_(torch.frombuffer(bytearray(seen), dtype=torch.uint8))
        self._synchronize()
        return made

    def compute_reference(self, slot: int) -> ReferenceOutputs:
        """Return what is right for what a slot's inputs have to hold."""
        release_torch_cache()
        return ReferenceOutputs(self.case, self.input_generator.regenerate(slot), self._tolerances)

    def find_tampering(self, slot: int) -> str | None:
        """Say what was written beside the outputs of a slot: an input, or memory of nobody."""
        pairs = zip(self.inputs(slot), self.input_generator.regenerate(slot), strict=True)
        for spec, (now, before) in zip(self.case.input_specs, pairs, strict=True):
            if not same_bits(now, before):
                return f"it changed its input {spec['name']}"
        if self._layout.is_guard_damaged(self._arena, slot):
            return "it wrote outside its arrays"
        return None

    def close(self) -> None:
        """Give the memory back, once nobody has it open any more."""
        for partner in self._runners:
            if not partner.is_closed:
                with suppress(RunnerDied, RunnerError):
                    partner.ask("close", _OPEN_TIMEOUT_S)
        self._arrays.clear()
        self._arena.close()

    def _synchronize(self) -> None:
        if self.case.target == "cuda":
            torch.cuda.synchronize()
