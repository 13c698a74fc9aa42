"""Times calls one by one on a CPU, each on inputs that are drawn when the call before has ended.

So no call can do work of the next one, as calls of a batch can, whose inputs are all there. The
runner is not stopped in between: its caches stay warm, and a call takes the time of one of a batch
and the harness's round trip, which is the same for candidate and rival.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

from kernelkb.measure.worker.judge.buffers.buffers import CaseBuffers
from kernelkb.measure.worker.judge.buffers.output_marks import OutputMark
from kernelkb.measure.worker.judge.inputs.inputs import Tensors
from kernelkb.measure.worker.judge.processes.procfs import share_core
from kernelkb.measure.worker.judge.processes.runner_process import RunnerProcess

MAX_CALLS = 16
_LEAD_CALLS = 1
"""Calls before those that count: the runner has just been resumed."""
_TIMEOUT_S = 60.0


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
