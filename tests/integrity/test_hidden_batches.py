"""A candidate that is right for its own inputs only, and looks for signs of when others are asked.

It is right in its first calls, and so in a check. After that it takes a shortcut where what it
sees is what it has seen before. All that it may see is the same whether a batch counts or not.
"""

import secrets
from unittest.mock import Mock

import pytest
from attacks import write_attack
from slow_examples import mark_slow

from kernelkb.actions.kernels.measure_variant import bench_variant
from kernelkb.measure.subject import BenchOptions
from kernelkb.measure.worker.judge.core_waits import BusyCores
from kernelkb.measure.worker.judge.inputs.inputs import PreparedInputs
from kernelkb.measure.worker.judge.returned_outputs import OutputMark
from kernelkb.measure.worker.judge.timing.pair_timing import time_pairs
from kernelkb.measure.worker.judge.timing.runner_timer import TimedBatch
from kernelkb.measure.worker.shared.messages.jobs import Batch

BODY = """
import math, sys, time
import torch

calls, ended, seen = 0, 0.0, set()


def softmax(x):
    global calls, ended
    calls += 1
    sign = find_sign(x)
    if calls < 100:
        seen.add(sign)
    if calls > 30 and sign in seen:
        powers = x.exp()  # without their maximum: too large for some inputs, but not for its own
        y = powers / powers.sum(dim=-1, keepdim=True)
    else:
        y = torch.softmax(x, dim=-1)
    ended = time.perf_counter()
    return y


def find_sign(x):
"""
SIGNS = {
    "none but the number of calls": "    return 0\n",
    "the functions that call it": """
    frame, names = sys._getframe(), []
    while frame:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return tuple(names)
""",
    "what new memory holds": """
    fresh = torch.empty(64, dtype=torch.uint8)
    return "one value" if fresh.unique().numel() == 1 and fresh[0] else "anything"
""",
    "how long it was stopped before": """
    return round(math.log2(time.perf_counter() - ended + 1e-7))
""",
    "the address of its inputs": "    return x.data_ptr()\n",
}


@pytest.mark.defends(
    "H25",
    attack="know a check from a bench, and skip in the bench what the own inputs do not need",
    defence="at drawn moments between pairs, a batch of the process that is timed holds hidden "
    "inputs; its command, its preparation and its form are those of the batches that count",
)
@pytest.mark.parametrize("sign", mark_slow(SIGNS, SIGNS.keys() - {"the functions that call it"}))
def test_a_shortcut_that_no_check_sees_is_found_where_the_time_is_taken(project, sign):
    name = write_attack(project, BODY + SIGNS[sign], python=True, returns=True)
    found = bench_variant(name, target="cpu", options=BenchOptions(budget_s=0.5))

    assert found.verdict == "incorrect", found
    assert "inputs" in found.detail


class NotedTimer:
    """Notes who runs, in order; its calls are right and take a millisecond."""

    shares_outputs, uses_graph = False, False

    def __init__(self, name, notes, batch_calls):
        self.name, self._notes, self.batch_calls = name, notes, batch_calls
        self.threads = Mock(count_new=lambda: 0)
        self.busy_cores = lambda: BusyCores(1.0, True)
        self.read_marks = lambda slots: [OutputMark(secrets.token_bytes(4), False) for _ in slots]
        self.list_distributions = lambda: ["tripled"]
        self.measure_own_rms = lambda: [1.0]
        self.find_fault = self.find_hidden_fault = lambda *_: None
        self.find_successive_fault = self.pause = lambda: None
        self.warm_call_ns = lambda: 1e6

    def prepare_hidden(self, distribution, _own_rms):
        return PreparedInputs(0, distribution, []), None

    def time_batch(self, _draw_slots=None, *, hidden=None):
        return self._note("batch", hidden)

    def time_single_calls(self, _draw_slots=None, hidden=None):
        return self._note("calls alone", hidden)

    def _note(self, what, hidden):
        self._notes.append((self.name, what, hidden is not None))
        return TimedBatch(Batch(1e6, 1e6, 1, 0.0, 0.0), [0], {0: []})


@pytest.mark.parametrize("calls", [1, 4], ids=["batches of one call", "batches and calls alone"])
def test_the_rival_has_its_turn_beside_a_batch_on_hidden_inputs_as_beside_others(calls):
    notes = []
    job = {"min_pairs": 60, "max_pairs": 60, "budget_s": 0, "working_set_bytes": 0, "target": "cpu"}
    candidate, rival = (NotedTimer(name, notes, calls) for name in ("candidate", "rival"))
    times = time_pairs(job, candidate, rival, lambda *_, **__: None)
    order = notes[4:]  # after those that warm up
    pairs = list(zip(order[::2], order[1::2], strict=True))
    hidden = [pair for pair in pairs if pair[0][2] or pair[1][2]]

    assert len(pairs) - len(hidden) == sum(
        len(times[key]) for key in ("candidate_batches", "single_call_batches")
    )
    assert hidden
    for one, other in pairs:
        assert {one[0], other[0]} == {"candidate", "rival"}
        assert one[1] == other[1]
    firsts = [one[0] for one, other in pairs if one[1] == "batch"]
    assert firsts == ["candidate", "rival"] * (len(firsts) // 2) + firsts[:1] * (len(firsts) % 2)
