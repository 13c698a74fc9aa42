"""One side of a match: a runner on the slots of a stage, timed window by window."""

from __future__ import annotations

import os
import random
import statistics
import time
from typing import Any, NamedTuple

from kernelkb.measure.worker.judge.buffers import Stage
from kernelkb.measure.worker.judge.inputs import Tensors
from kernelkb.measure.worker.judge.procfs import waited_here_ns
from kernelkb.measure.worker.judge.runner_process import Partner
from kernelkb.measure.worker.shared.failures import printable

CALL_S = 60.0
_PATIENCE = 50
_PATIENCE_S = 10.0
_PLANS = 2
_ALONE, _AGAIN = _PLANS, _PLANS + 1
_WARM = 5
_BUSY_S = 0.3
_REST_S = 0.1


class Window(NamedTuple):
    """One window: nanoseconds of all its calls by the judge's clock and by the runner's."""

    outer_ns: float
    inner_ns: float
    calls: int
    start: float
    """On the system's monotonic clock, seconds."""
    end: float
    copy_ns: float
    """How long it took to put what was returned where the judge looks, which is not its work."""
    waited_ns: float
    """How long its threads and the judge's, together, stood in line for a core."""
    quiet_ns: float
    """How long the judge's own reading took just before, while all processes stood still."""


class Side:
    """A runner on the slots of a stage.

    Attributes:
        name: The runner's.
        graph: Whether its windows are CUDA graphs.
        why: Why they are not, where they were to be.
        threads: How many threads its process had once it was warm.
    """

    def __init__(self, partner: Partner, stage: Stage, draw: random.Random) -> None:
        """Open the stage's memory to the runner, and let it call its code once."""
        self.name = partner.name
        self._partner, self._stage, self._draw = partner, stage, draw
        self._plans: dict[int, list[int]] = {}
        self._slots = range(stage.slots)
        self._most = 1
        self._spare = 0
        self.graph = False
        self.why: str | None = None
        self.threads = 0
        self._timeout_s = CALL_S
        stage.join(partner, timeout_s=CALL_S)
        partner.ask("call", CALL_S, slot=0)

    def plan(self, calls: int, *, graph: bool) -> None:
        """Plan windows of some calls, each on slots and in an order of its own.

        Args:
            calls: At most as many as there are slots, less one that stays as it is.
            graph: Make each window one CUDA graph, where that is possible. Calls one by one are
                on other slots each time; graphs are few, and made beforehand.
        """
        self._most = max(1, min(calls, self._stage.slots - 1))
        self._timeout_s = CALL_S
        self.graph, self.why = False, None
        self.graph = graph and self._captured()
        self.threads = self._partner.thread_count()
        self._partner.pause()
        if self.graph:
            self._replays(calls)

    def _captured(self) -> bool:
        """Make the graphs, in an order that tells nobody which is which."""
        sizes = {_ALONE: 1, **dict.fromkeys(range(_PLANS), self._most)}
        self._plans = {at: self._draw.sample(self._slots, size) for at, size in sizes.items()}
        self._plans[_AGAIN] = [0] * self._most
        for at in self._draw.sample(list(self._plans), len(self._plans)):
            answer = self._partner.ask("plan", CALL_S, id=at, slots=self._plans[at])
            if answer.get("why"):
                self.why = printable(answer["why"])[:300]
                return False
        return True

    def _replays(self, calls: int) -> None:
        """Go back to calls one by one where a graph of them does not do their work.

        What is launched on another stream than the one that is given is in no graph.
        """
        wrong = self.judged(self.window(look=1)[1])
        if wrong:
            self.plan(calls, graph=False)
            self.why = f"replayed, {wrong}; launch on the stream that is given"

    def warm_ns(self) -> float:
        """Return the time of a call whose data the call before has left in the cache.

        Its contents repeat, so it could be cheated, and by the runner's own clock: it explains,
        and decides nothing.
        """
        times = []
        for _ in range(_WARM):
            answer = self._partner.ask("go", CALL_S, **self._again())
            times.append(self._partner.number(answer, "inner_ns") / self._most)
        self._partner.pause()
        return statistics.median(times)

    def busy(self) -> float:
        """Return how many cores it keeps busy, over windows of 0.3 s and more together."""
        time.sleep(_REST_S)  # threads that woke the cache spin for a while before they sleep
        wall, before = 0.0, self._partner.cpu_ticks()
        while wall < _BUSY_S:
            started = time.perf_counter()
            self._partner.ask("go", CALL_S, **self._again())
            wall += time.perf_counter() - started
        self._partner.pause()
        return (self._partner.cpu_ticks() - before) / os.sysconf("SC_CLK_TCK") / wall

    def _again(self) -> dict[str, Any]:
        return {"plan": _AGAIN} if self.graph else {"slots": [0] * self._most}

    def _drawn(self, *, alone: bool) -> tuple[list[int], dict[str, Any]]:
        """Return the slots of a window, and how the runner is told them."""
        if self.graph:
            at = _ALONE if alone else self._draw.randrange(_PLANS)
            return self._plans[at], {"plan": at}
        plan = self._draw.sample(self._slots, 1 if alone else self._most)
        return plan, {"slots": plan}

    def window(self, look: int = 0, *, alone: bool = False) -> tuple[Window, dict[int, Tensors]]:
        """Renew contents, then time some calls; also returns what ``look`` of the slots hold then.

        The runner is stopped whenever it is not to work: while its inputs are made, while others
        are timed, and from its answer on. So the clock ends when nothing of it runs any more, and
        what the judge finds then is what was done in time.

        Args:
            look: How many slots to look at.
            alone: Make one call only, which nobody knows before it comes.
        """
        plan, told = self._drawn(alone=alone)
        called = set(plan)
        self._spare = self._draw.choice([slot for slot in self._slots if slot not in called])
        chosen = self._chosen(plan, look)
        quiet = self._stage.renew([*plan, self._spare])
        self._partner.inspect()
        waited = self._partner.waited_ns() + waited_here_ns()
        start = time.monotonic()
        clock = time.perf_counter_ns()
        answer = self._partner.ask("go", self._timeout_s, **told)
        self._partner.halt()
        outer, made = self._stage.arrive(chosen, clock)
        self._partner.pause()
        self._timeout_s = max(_PATIENCE_S, _PATIENCE * outer / 1e9)  # it has shown what it takes
        end = time.monotonic()
        waited = self._partner.waited_ns() + waited_here_ns() - waited
        inner = self._partner.number(answer, "inner_ns")
        copied = self._partner.number(answer, "copy_ns")
        window = Window(outer, inner, len(plan), start, end, copied, waited, quiet)
        return window, made or {slot: self._stage.taken(slot, self._partner) for slot in chosen}

    def _chosen(self, plan: list[int], look: int) -> list[int]:
        chosen = self._draw.sample(plan, min(look, len(plan)))
        if chosen and self._draw.random() < 0.5 and plan[-1] not in chosen:
            chosen[0] = plan[-1]  # the last call is the one to put off
        return chosen

    def judged(self, made: dict[int, Tensors]) -> str | None:
        """Say what is wrong with the last window, of which ``window`` gave some slots' outputs."""
        if not self._stage.untouched(self._spare):
            return "it wrote outputs that it was not called for"
        faults = (self._fault(slot, outputs) for slot, outputs in made.items())
        return next((fault for fault in faults if fault), None)

    def _fault(self, slot: int, made: Tensors) -> str | None:
        tampered = self._stage.tampered(slot)
        if tampered:
            return tampered
        found = self._stage.expected(slot).compare(made)
        if found["correct"]:
            return None
        if found["nan_count"]:
            return f"{found['nan_count']} elements were not written when it said it had ended"
        return f"a timed call was wrong in {1 - found['matched_ratio']:.1%} of its elements"
