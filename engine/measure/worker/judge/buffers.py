"""Judge, runner and shared memory, set up for one case."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from kernelkb.measure.worker.judge.compare import Expected
from kernelkb.measure.worker.judge.inputs import (
    Contents,
    Task,
    Tensors,
    bits,
    poison,
    poisoned,
    same_bits,
)
from kernelkb.measure.worker.judge.procfs import waited_here_ns
from kernelkb.measure.worker.judge.runner_process import Partner
from kernelkb.measure.worker.shared.failures import Refused, RunnerLost, Unfit
from kernelkb.measure.worker.shared.memory import Arena, Layout, give_back

Job = dict[str, Any]

_OPEN_S = 60.0
_WAKING_S = 0.1


class Stage:
    """Slots of one case in one piece of memory that every runner has open.

    Attributes:
        slots: How many copies of all arrays there are.
    """

    def __init__(
        self, task: Task, tolerances: Job, slots: int, draw: random.Random, flush_bytes: int
    ) -> None:
        """Allocate and fill.

        Args:
            task: What to compute.
            tolerances: By type; see ``kernelkb.measure.worker.judge.compare``.
            slots: How many copies of all arrays.
            draw: Where chance comes from.
            flush_bytes: How much must be read to push everything out of the cache.
        """
        torch.set_grad_enabled(False)
        self.task, self.slots = task, slots
        self._tolerances = tolerances
        self._layout = Layout([*task.inputs, *task.outputs], slots, draw)
        self._arena = Arena(self._layout.size, task.target)
        self._places = self._arena.places(self._layout.places)
        self._joined: list[Partner] = []
        self._layout.guard(self._arena)
        self._arrays = [self._layout.arrays(self._arena, slot) for slot in range(slots)]
        self.contents = Contents(task, draw)
        for slot in range(slots):
            self.contents.change(slot, self.inputs(slot))
            self._blank(slot)
        self._settle()
        self._other = torch.ones(max(1, flush_bytes // 4), device=task.device)

    def join(self, partner: Partner, *, timeout_s: float) -> None:
        """Let a runner open the memory and tie its code to every slot.

        Raises:
            Unfit: The memory cannot be opened there.
            Refused: The code cannot be tied to it.
            RunnerLost: There is no runner any more.
        """
        files = () if self._arena.descriptor is None else (self._arena.descriptor,)
        self._joined.append(partner)
        try:
            partner.ask(
                "open",
                _OPEN_S,
                *files,
                bytes=self._arena.size,
                handle=self._arena.handle,
                places=self._layout.places,
            )
        except Refused as problem:
            raise Unfit(f"{problem}; see what kb env says of this GPU") from problem
        partner.ask(
            "bind",
            timeout_s,
            specs=[*self.task.inputs, *self.task.outputs],
            offsets=self._layout.offsets,
            input_count=len(self.task.inputs),
            scalars=self.task.scalars,
            axes=self.task.case["axes"],
        )

    def inputs(self, slot: int) -> Tensors:
        """Return a slot's inputs, as they lie in shared memory."""
        return self._arrays[slot][: len(self.task.inputs)]

    def outputs(self, slot: int) -> Tensors:
        """Return a slot's outputs, as they lie in shared memory."""
        return self._arrays[slot][len(self.task.inputs) :]

    def renew(self, slots: list[int]) -> float:
        """Change the inputs of some slots, poison their outputs, and empty the cache.

        Returns what ``quiet_ns`` does, of this once.
        """
        give_back()
        for slot in slots:
            self.contents.change(slot, self.inputs(slot))
            self._blank(slot)
        if self._arena.cuda is not None:
            self._arena.cuda.forget_persisting_lines()
        return self._read_ns()

    def quiet_ns(self) -> float:
        """Return how long it takes to read what fills the cache, nanoseconds; 0 on a CPU.

        A GPU that does work of others as well takes longer, even when all processes stand still:
        kernels that were launched go on.
        """
        if self.task.target != "cuda":
            return 0.0
        end = time.monotonic() + _WAKING_S  # clocks that rested rise
        found = [self._read_ns()]
        while time.monotonic() < end:
            found.append(self._read_ns())
        return min(found)

    def _read_ns(self) -> float:
        """Empty the cache; reading leaves no lines that the candidate would have to write back.

        The second time tells: the first may have to ask the driver for memory, for 0.5 ms.
        """
        self._other.sum()
        self._settle()
        waited, clock = waited_here_ns(), time.perf_counter_ns()
        self._other.sum()
        self._settle()
        took = time.perf_counter_ns() - clock - (waited_here_ns() - waited)
        return float(took) if self.task.target == "cuda" else 0.0

    def arrive(self, slots: Sequence[int], since: int) -> tuple[float, dict[int, Tensors]]:
        """Return the nanoseconds until the GPU does this process's work, and some slots' outputs.

        A runner's kernel may still be running then, in turn with ours. So the copies follow at
        once: they hold what was done by now, not what is done while the judge thinks. On a CPU
        there are none; what is stopped there does nothing more.

        Args:
            slots: Which outputs to copy.
            since: When the clock began, by ``time.perf_counter_ns``.
        """
        if self.task.target != "cuda":
            return float(time.perf_counter_ns() - since), {}
        self._other[:1].add_(0)
        here = torch.cuda.Event()
        here.record()
        made = {slot: [tensor.clone() for tensor in self.outputs(slot)] for slot in slots}
        here.synchronize()
        took = float(time.perf_counter_ns() - since)
        self._settle()
        return took, made

    def poison(self, slot: int) -> None:
        """Make the outputs of a slot what they are before a call."""
        self._blank(slot)
        self._settle()

    def _blank(self, slot: int) -> None:
        given = dict(zip((s["name"] for s in self.task.inputs), self.inputs(slot), strict=True))
        for spec, array in zip(self.task.outputs, self.outputs(slot), strict=True):
            if spec.get("starts_as"):
                array.copy_(given[spec["starts_as"]])
            else:
                poison([array])
        if self.task.target == "cpu":
            for at in self._row(slot):
                self._places[at] = 0

    def _row(self, slot: int) -> range:
        count = len(self.task.outputs)
        return range(slot * count, (slot + 1) * count)

    def untouched(self, slot: int) -> bool:
        """Return whether nobody has written a slot's outputs since they were poisoned."""
        given = dict(zip((s["name"] for s in self.task.inputs), self.inputs(slot), strict=True))
        return all(
            same_bits(array, given[spec["starts_as"]])
            if spec.get("starts_as")
            else poisoned([array])
            for spec, array in zip(self.task.outputs, self.outputs(slot), strict=True)
        )

    def taken(self, slot: int, partner: Partner | None = None) -> Tensors:
        """Return copies of a slot's outputs as they are at this moment.

        Args:
            slot: Which.
            partner: Who may have returned them, and so has them in memory of its own.
        """
        made = [tensor.clone() for tensor in self.outputs(slot)]
        if partner is not None and self.task.target == "cpu":
            for at, one in zip(self._row(slot), made, strict=True):
                seen = partner.read(self._places[at], one.nbytes) if self._places[at] else b""
                if seen:
                    bits(one).copy_(torch.frombuffer(bytearray(seen), dtype=torch.uint8))
        self._settle()
        return made

    def expected(self, slot: int) -> Expected:
        """Return what is right for what a slot's inputs have to hold."""
        give_back()
        return Expected(self.task, self.contents.again(slot), self._tolerances)

    def tampered(self, slot: int) -> str | None:
        """Say what was written beside the outputs of a slot: an input, or memory of nobody."""
        pairs = zip(self.inputs(slot), self.contents.again(slot), strict=True)
        for spec, (now, before) in zip(self.task.inputs, pairs, strict=True):
            if not same_bits(now, before):
                return f"it changed its input {spec['name']}"
        if self._layout.trespassed(self._arena, slot):
            return "it wrote outside its arrays"
        return None

    def close(self) -> None:
        """Give the memory back, once nobody has it open any more."""
        for partner in self._joined:
            if not partner.closed:
                with suppress(RunnerLost, Refused):
                    partner.ask("close", _OPEN_S)
        self._arrays.clear()
        self._arena.close()

    def _settle(self) -> None:
        if self.task.target == "cuda":
            torch.cuda.synchronize()
